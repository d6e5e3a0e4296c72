"""Fourier series on the circle."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import AbstractHarmonics, constant


class CircleHarmonics(AbstractHarmonics):
    """`1, sqrt(2) cos k a, sqrt(2) sin k a`: coefficients of shape (2, modes + 1), cosines first."""

    modes: int = eqx.field(static=True)
    d: int = eqx.field(static=True)
    degree: Float[Array, "2 k"]

    def __init__(self, modes: int):
        self.modes, self.d = modes, 2
        k = np.tile(np.arange(modes + 1.0), (2, 1))
        k[1, 0] = -1
        self.degree = constant(k)

    @property
    def shape(self):
        return (2, self.modes + 1)

    @property
    def count(self) -> int:
        return 4 * (self.modes + 1)

    @property
    def nodes(self):
        angle = 2 * np.pi * np.arange(self.count) / self.count
        return jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=1), float)

    @property
    def node_weights(self):
        return jnp.full(self.count, 1 / self.count)

    @property
    def scale(self) -> Float[Array, " k"]:
        return jnp.asarray(np.where(np.arange(self.modes + 1) == 0, 1.0, math.sqrt(0.5)), float)

    def values(self, c):
        return jnp.fft.irfft(self.scale * (c[0] - 1j * c[1]), n=self.count) * self.count

    def coefficients(self, values):
        found = jnp.fft.rfft(values)[: self.modes + 1] / (self.count * self.scale)
        return jnp.stack([found.real, -found.imag]) * (self.degree >= 0)

    @eqx.filter_jit
    def at(self, c, x):
        return jnp.einsum("k,skn,sk->n", 1 / self.scale, self._waves(x), c)

    @eqx.filter_jit
    def moments(self, x, w):
        return jnp.einsum("k,skn,n->sk", 1 / self.scale, self._waves(x), w)

    def _waves(self, x):
        angle = jnp.arctan2(x[:, 1], x[:, 0]) * jnp.arange(self.modes + 1)[:, None]
        return jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def resized(self, modes):
        return CircleHarmonics(modes)

    def embed(self, c, modes):
        return jnp.pad(c[..., : modes + 1], [(0, 0)] * (c.ndim - 1) + [(0, max(modes - self.modes, 0))])
