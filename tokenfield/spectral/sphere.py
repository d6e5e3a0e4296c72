"""Spherical harmonics on the 2-sphere."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from .base import AbstractHarmonics, constant
from .gegenbauer import gauss, precise
from .legendre import legendre


def legendre_table(modes: int, z: np.ndarray) -> np.ndarray:
    """Return the associated Legendre functions at z, an (m, l, N) array that is 0 for l < m."""
    found = np.zeros((modes + 1, modes + 1, len(z)))
    for m in range(modes + 1):
        found[m, m:] = legendre(m, modes, z)
    return found


@lru_cache(maxsize=4)
def _table(modes: int) -> np.ndarray:
    """Return the Legendre functions at the nodes, correct to rounding."""
    return legendre_table(modes, precise(2 * (modes + 1), 3).t)


class SphereHarmonics(AbstractHarmonics):
    """Coefficients of shape (2, modes + 1, modes + 1): cosines or sines of the longitude, order m, degree l.

    Nodes: Gauss–Legendre in the last coordinate times evenly spaced longitudes.
    """

    modes: int = eqx.field(static=True)
    d: int = eqx.field(static=True)
    degree: Float[Array, "2 m l"]
    z: Float[Array, " N"]
    weights: Float[Array, " N"]
    table: Float[Array, "m l N"]

    def __init__(self, modes: int):
        self.modes, self.d = modes, 3
        m, k = np.meshgrid(np.arange(modes + 1), np.arange(modes + 1.0), indexing="ij")
        k = np.where(k < m, -1, k)
        self.degree = constant(np.stack([k, np.where(m == 0, -1, k)]))
        self.z, self.weights = (constant(part) for part in gauss(2 * (modes + 1), 3))
        self.table = constant(_table(modes))

    @property
    def shape(self):
        return (2, self.modes + 1, self.modes + 1)

    @property
    def count(self) -> int:
        return 4 * (self.modes + 1)

    @property
    def nodes(self):
        z, angle = self.z, 2 * np.pi * np.arange(self.count) / self.count
        side = jnp.sqrt(1 - z**2)[:, None]
        flat = [side * np.cos(angle), side * np.sin(angle), jnp.broadcast_to(z[:, None], (len(z), self.count))]
        return jnp.stack([part.reshape(-1) for part in flat], axis=1)

    @property
    def node_weights(self):
        return jnp.repeat(self.weights, self.count) / self.count

    def values(self, c):
        waves = jnp.einsum("sml,mlN->smN", c, self.table)
        half = jnp.where(jnp.arange(self.modes + 1) == 0, 1.0, 0.5)[:, None]
        spectrum = half * (waves[0] - 1j * waves[1])
        return (jnp.fft.irfft(spectrum.T, n=self.count, axis=1) * self.count).reshape(-1)

    def coefficients(self, values):
        spectrum = jnp.fft.rfft(values.reshape(len(self.z), self.count), axis=1)[:, : self.modes + 1].T / self.count
        parts = jnp.stack([spectrum.real, -spectrum.imag]) * self.weights
        return jnp.einsum("smN,mlN->sml", parts, self.table) * (self.degree >= 0)

    def at(self, c, x):
        if not is_concrete(x):
            added = lambda total, row, values: (total + c[..., row][..., None] * values, None)  # noqa: E731
            total, _ = _by_degree(self.modes, x[:, 2], added, jnp.zeros((2, self.modes + 1, len(x))))
            return (total * _angular_waves(self.modes, x)).sum((0, 1))
        table, waves = self._waves(x)
        return jnp.einsum("sml,mln,smn->n", c, table, waves)

    def moments(self, x, w):
        if not is_concrete(x):
            angular = w * _angular_waves(self.modes, x)
            row = lambda nothing, _, values: (nothing, (angular * values).sum(-1))  # noqa: E731
            return jnp.moveaxis(_by_degree(self.modes, x[:, 2], row, None)[1], 0, -1) * (self.degree >= 0)
        table, waves = self._waves(x)
        return jnp.einsum("mln,smn,n->sml", table, waves, w) * (self.degree >= 0)

    def _waves(self, x):
        x = np.asarray(x)
        angle = np.arctan2(x[:, 1], x[:, 0]) * np.arange(self.modes + 1)[:, None]
        parts = legendre_table(self.modes, np.clip(x[:, 2], -1, 1)), np.stack([np.cos(angle), np.sin(angle)])
        return tuple(jnp.asarray(part, float) for part in parts)

    def resized(self, modes):
        return SphereHarmonics(modes)

    def embed(self, c, modes):
        grown = max(modes - self.modes, 0)
        cut = c[..., : modes + 1, : modes + 1]
        return jnp.pad(cut, [(0, 0)] * (c.ndim - 2) + [(0, grown), (0, grown)])


def _angular_waves(modes: int, x: Float[Array, "n 3"]) -> Float[Array, "2 m n"]:
    """Return `r^m cos m p` and `r^m sin m p`, polynomials in the first two coordinates `r cos p` and `r sin p`."""
    first = jnp.stack([jnp.ones_like(x[:, 0]), jnp.zeros_like(x[:, 0])])

    def next_wave(wave, _):
        return jnp.stack([x[:, 0] * wave[0] - x[:, 1] * wave[1], x[:, 1] * wave[0] + x[:, 0] * wave[1]]), wave

    return jnp.moveaxis(jax.lax.scan(next_wave, first, None, length=modes + 1)[1], 0, 1)


def _by_degree(modes: int, z: Float[Array, " n"], add: Callable, total: Any) -> tuple[Any, Any]:
    """Scan `add(total, l, values)` over the degrees l; values, (m, n), are the harmonics without their `_angular_waves`.

    They are polynomials in the last coordinate, so they have derivatives at the poles too. Used inside jit, vmap or grad.
    """
    l, m = np.arange(modes + 1)[:, None], np.arange(modes + 1)  # noqa: E741
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.sqrt(np.cumprod([1.0, *((2 * m[1:] + 1) / (2 * m[1:]))]) * (1 + (m > 0)))
        apart = (l - m) * (l + m)
        a = np.where(l > m, np.sqrt((2 * l - 1) * (2 * l + 1) / apart), 0)
        b = np.sqrt((2 * l + 1) * (l + m - 1) * (l - m - 1) / (apart * np.maximum(2 * l - 3, 1)))
    b = np.where(l > m, b, 0)

    def up(carry, row):
        degree, a, b = row
        now, before, total = carry
        values = jnp.where((degree == m)[:, None], size[:, None], a[:, None] * z * now - b[:, None] * before)
        total, found = add(total, degree, values)
        return (values, now, total), found

    start = jnp.zeros((modes + 1, len(z)))
    (_, _, total), found = jax.lax.scan(
        up, (start, start, total), (jnp.arange(modes + 1), jnp.asarray(a), jnp.asarray(b))
    )
    return total, found
