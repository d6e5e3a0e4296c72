"""Hyperbolic space: one sheet of the hyperboloid."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import AbstractBrownianSpace


class Hyperbolic(AbstractBrownianSpace):
    """Hyperbolic space of dimension m = d - 1: `<x, x> = -1`, `x_0 > 0`, with `<x, y> = -x_0 y_0 + x_1 y_1 + … + x_m y_m`.

    `<x, y> = -cosh(distance)`, so that scores `beta <x, y>` are largest for tokens close together, as on the sphere. The
    mean of points, projected onto the tangent space at x, points from x to their Lorentzian center.

    Points are sampled as `exp_o(ξ)` with ξ standard normal, about the origin o = (1, 0, …, 0).

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=2.0), space=tkf.Hyperbolic())
        >>> tkf.simulate(model, tkf.tokens_in(tkf.Hyperbolic(), n=64, d=3, seed=0), t1=5.0)
        Trajectory(time 101, coordinate 3, token 64; until t = 5; events: none)
    """

    kind: ClassVar[str] = "hyperbolic"
    title: ClassVar[str] = "hyperbolic space"
    symbol: ClassVar[str] = "y"
    ball: ClassVar[bool] = True
    indefinite: ClassVar[bool] = True

    def signs(self, d):
        return np.concatenate([[-1.0], np.ones(d - 1)])

    def project(self, x):
        rest = x[..., 1:]
        return jnp.concatenate([jnp.sqrt(1 + (rest * rest).sum(-1, keepdims=True)), rest], axis=-1)

    def tangent(self, x, v):
        return v + self.inner(x, v)[..., None] * x

    def retract(self, x, v):
        return self.exp(x, self.tangent(x, v))

    def exp(self, x, v):
        return self.project(x + self._along(x, v))

    def log(self, x, y):
        r = self.distance(x, y)[..., None]
        return self.tangent(x, y) / sinhc(r)

    def distance(self, x, y):
        # From the chord, <x - y, x - y> = 4 sinh^2(r/2): arccosh(-<x, y>) loses all digits for points close together.
        return 2 * jnp.arcsinh(_root(self.inner(x - y, x - y)) / 2)

    def sample(self, xi):
        rest = xi[..., 1:]
        r = _root((rest * rest).sum(-1))[..., None]
        return self.project(jnp.concatenate([jnp.ones_like(r), sinhc(r) * rest], axis=-1))

    def chart(self, x):
        """Return the Poincaré ball, `x_k / (1 + x_0)`."""
        return x[..., 1:] / (1 + x[..., :1])

    def check(self, d):
        if d < 2:
            raise ValueError(
                f"Hyperbolic needs d >= 2: one coordinate more than the dimension of the space, got d = {d}"
            )

    def brownian(self, xi, x, variance):
        """Return the displacement of a Brownian step; the first of the d numbers of a token is not used.

        Geodesics diverge faster than in the flat space in which xi is drawn. Relative to flat space, a length r has the
        additional drift `(m-1)(coth r - 1/r) ≈ (m-1) r/3`, so a step is lengthened by `(m-1) variance/12`.
        """
        longer = jnp.exp((x.shape[-1] - 2) * variance / 12)
        at_origin = jnp.broadcast_to(xi, x.shape).at[..., 0].set(0.0)
        origin = jnp.zeros_like(x).at[..., 0].set(1.0)
        # Parallel transport along the geodesic from the origin to x, which keeps lengths and angles.
        direction = at_origin + (self.inner(x, at_origin) / (1 + x[..., 0]))[..., None] * (origin + x)
        return self._along(x, jnp.sqrt(variance) * longer * direction)

    def spectral_gap(self, d):
        return 0.0

    def _along(self, x: Array, v: Array) -> Array:
        """Return `exp_x(v) - x`."""
        r = _root(self.inner(v, v))[..., None]
        return sinhc(r) * v + 2 * jnp.sinh(r / 2) ** 2 * x


def sinhc(r: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return `sinh(r) / r`, 1 at 0."""
    return jnp.where(r == 0, 1, jnp.sinh(r) / jnp.where(r == 0, 1, r))


def _root(square: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return the square root; 0, with the derivative 0, where rounding makes a square negative."""
    return jnp.where(square <= 0, 0, jnp.sqrt(jnp.where(square <= 0, 1, square)))  # NaNs propagate
