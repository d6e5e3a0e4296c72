"""Zonal functions, of `t = <x, e>` with e the last axis, on the sphere of any dimension: Gegenbauer polynomials."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import eigh_tridiagonal

from .base import AbstractHarmonics


def jacobi(d: int, count: int) -> np.ndarray:
    """`b_1, …, b_count` in `t phi_l = b_{l+1} phi_{l+1} + b_l phi_{l-1}`, phi_l orthonormal for the law of t."""
    k = np.arange(1.0, count + 1)
    if d == 2:
        return np.where(k == 1, math.sqrt(0.5), 0.5)
    return np.sqrt(k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4)))


def polynomials(d: int, modes: int, t: np.ndarray) -> np.ndarray:
    """`phi_0(t), …, phi_modes(t)` on a new first axis; `phi_l(1) = sqrt(dim)`, the number of harmonics of degree l."""
    b = jacobi(d, modes + 1)
    found = [np.ones_like(t), t / b[0]]
    for k in range(1, modes):
        found.append((t * found[k] - b[k - 1] * found[k - 1]) / b[k])
    return np.stack(found[: modes + 1])


def gauss(d: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss for the law of t (Golub and Welsch 1969), polished to rounding.

    The weights are `1/sum_{l < count} phi_l(t)^2`.
    """
    b = jacobi(d, count)
    t = eigh_tridiagonal(np.zeros(count), b[:-1], eigvals_only=True)
    for _ in range(2):  # Newton's method on phi_count, with its slope by the same recurrence
        f, g, df, dg = np.ones(count), t / b[0], np.zeros(count), np.full(count, 1 / b[0])
        for k in range(1, count):
            f, g, df, dg = g, (t * g - b[k - 1] * f) / b[k], dg, (g + t * dg - b[k - 1] * df) / b[k]
        t = t - g / dg
    t = (t - t[::-1]) / 2
    weights = 1 / (polynomials(d, count - 1, t) ** 2).sum(0)
    return t, weights / weights.sum()


class ZonalHarmonics(AbstractHarmonics):
    """`phi_l(t) = sqrt(dim_l) P_l(t)`, l = 0 … modes, at the nodes of Gauss."""

    modes: int = eqx.field(static=True)
    d: int = eqx.field(static=True)
    degree: Float[Array, " l"]
    t: Float[Array, " N"]
    weights: Float[Array, " N"]
    table: Float[Array, "l N"]

    def __init__(self, modes: int, d: int):
        self.modes, self.d = modes, d
        self.degree = jnp.arange(modes + 1.0)
        t, weights = gauss(d, 2 * (modes + 1))
        self.t, self.table = jnp.asarray(t), jnp.asarray(polynomials(d, modes, t))
        self.weights = jnp.asarray(weights)

    @property
    def shape(self):
        return (self.modes + 1,)

    @property
    def nodes(self):
        side = jnp.sqrt(1 - self.t**2)
        rest = jnp.zeros((len(self.t), self.d - 2))
        return jnp.concatenate([side[:, None], rest, self.t[:, None]], axis=1)

    def values(self, c):
        return c @ self.table

    def coefficients(self, values):
        return self.table @ (self.weights * values)

    def at(self, c, x):
        return c @ jnp.asarray(polynomials(self.d, self.modes, np.asarray(x)[:, -1]))

    def moments(self, x, w):
        return jnp.asarray(polynomials(self.d, self.modes, np.asarray(x)[:, -1])) @ w

    def resized(self, modes):
        return ZonalHarmonics(modes, self.d)

    def embed(self, c, modes):
        return jnp.pad(c[..., : modes + 1], [(0, 0)] * (c.ndim - 1) + [(0, max(modes - self.modes, 0))])
