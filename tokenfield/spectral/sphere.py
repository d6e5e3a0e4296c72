"""Spherical harmonics on the 2-sphere."""

from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import AbstractHarmonics, constant
from .gegenbauer import gauss, precise
from .legendre import legendre


def legendre_table(modes: int, z: np.ndarray) -> np.ndarray:
    """`(m, l, N)`: associated Legendre functions at z, 0 for l < m."""
    found = np.zeros((modes + 1, modes + 1, len(z)))
    for m in range(modes + 1):
        found[m, m:] = legendre(m, modes, z)
    return found


@lru_cache(maxsize=4)
def _table(modes: int) -> np.ndarray:
    """The Legendre functions at the nodes, correct to rounding."""
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
        z, angle = np.asarray(self.z), 2 * np.pi * np.arange(self.count) / self.count
        side = np.sqrt(1 - z**2)[:, None]
        flat = [side * np.cos(angle), side * np.sin(angle), np.broadcast_to(z[:, None], (len(z), self.count))]
        return jnp.asarray(np.stack([part.reshape(-1) for part in flat], axis=1), float)

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
        table, waves = self._waves(x)
        return jnp.einsum("sml,mln,smn->n", c, table, waves)

    def moments(self, x, w):
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
