"""Zonal functions, of `t = <x, e>` with e the last axis, on the sphere of any dimension: Gegenbauer polynomials."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from .base import AbstractHarmonics, constant
from .gegenbauer import basis, gauss, jacobi, polynomials


class ZonalHarmonics(AbstractHarmonics):
    """`phi_l(t) = sqrt(dim_l) P_l(t)`, l = 0 … modes, at Gauss nodes."""

    modes: int = eqx.field(static=True)
    d: int = eqx.field(static=True)
    degree: Float[Array, " l"]
    t: Float[Array, " N"]
    weights: Float[Array, " N"]
    table: Float[Array, "l N"]

    def __init__(self, modes: int, d: int):
        self.modes, self.d = modes, d
        self.degree = constant(np.arange(modes + 1.0))
        nodes = 2 * (modes + 1)
        self.t, self.weights = (constant(part) for part in gauss(nodes, d))
        self.table = constant(basis(nodes, d)[:, : modes + 1].T)

    @property
    def shape(self):
        return (self.modes + 1,)

    @property
    def nodes(self):
        t, rest = self.t, jnp.zeros((len(self.t), self.d - 2))
        return jnp.concatenate([jnp.sqrt(1 - t**2)[:, None], rest, t[:, None]], axis=1)

    @property
    def node_weights(self):
        return self.weights

    def values(self, c):
        return c @ self.table

    def coefficients(self, values):
        return self.table @ (self.weights * values)

    def at(self, c, x):
        return c @ self._at(x)

    def moments(self, x, w):
        return self._at(x) @ w

    def _at(self, x) -> Float[Array, "l n"]:
        """Return all harmonics at points, of which only the last coordinate is used."""
        if is_concrete(x):  # NumPy needs no compilation
            return jnp.asarray(polynomials(np.asarray(x)[:, -1], self.modes + 1, self.d)[0].T, float)
        return _polynomials(x[:, -1], self.modes, self.d)

    def resized(self, modes):
        return ZonalHarmonics(modes, self.d)

    def embed(self, c, modes):
        return jnp.pad(c[..., : modes + 1], [(0, 0)] * (c.ndim - 1) + [(0, max(modes - self.modes, 0))])


def _polynomials(t: Float[Array, " n"], modes: int, d: int) -> Float[Array, "l n"]:
    """Return the values of `polynomials`, inside jit, vmap or grad."""
    b = jacobi(d, modes)
    first = jnp.ones_like(t)

    def up(pair, step):
        value, before = pair
        high, low = step
        return ((t * value - low * before) / high, value), value

    (last, _), found = jax.lax.scan(up, (first, jnp.zeros_like(t)), (jnp.asarray(b), jnp.asarray([0.0, *b[:-1]])))
    return jnp.concatenate([found, last[None]])
