"""The flat torus: a product of circles."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import AbstractBrownianSpace, lengths
from .sphere import Sphere

CIRCLE = Sphere()


class Torus(AbstractBrownianSpace):
    """The flat torus of m = d/2 angles, as `(cos θ_1, sin θ_1, …, cos θ_m, sin θ_m)` in R^d, a product of unit circles.

    `<x, y> = sum_k cos(θ_k - φ_k)`, so self-attention with beta = 0 is a separate Kuramoto model in each angle, and
    beta > 0 couples the angles. Distances are `(sum_k (θ_k - φ_k)^2)^{1/2}`, with angle differences taken in (-π, π].

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=2.0), space=tkf.Torus())
        >>> tkf.simulate(model, tkf.tokens_in(tkf.Torus(), n=64, d=4, seed=0), t1=5.0)
        Trajectory(time 101, coordinate 4, token 64; until t = 5; events: none)
    """

    kind: ClassVar[str] = "torus"
    title: ClassVar[str] = "flat torus"
    usual_d: ClassVar[int] = 4
    symbol: ClassVar[str] = "θ"
    period: ClassVar[float | None] = 2 * np.pi

    def signs(self, d):
        return np.ones(d)

    def project(self, x):
        return on_circles(CIRCLE.project, x)

    def tangent(self, x, v):
        return on_circles(CIRCLE.tangent, x, v)

    def retract(self, x, v):
        return on_circles(CIRCLE.retract, x, v)

    def exp(self, x, v):
        return on_circles(CIRCLE.exp, x, v)

    def log(self, x, y):
        return on_circles(CIRCLE.log, x, y)

    def distance(self, x, y):
        return lengths(CIRCLE.distance(circles(x), circles(y)))

    def sample(self, xi):
        return self.project(xi)

    def chart(self, x):
        """Return the angles, in (-π, π]."""
        pairs = circles(x)
        return jnp.arctan2(pairs[..., 1], pairs[..., 0])

    def check(self, d):
        if d < 2 or d % 2:
            raise ValueError(f"Torus needs an even d, two coordinates for each angle, got d = {d}")

    def brownian(self, xi, x, variance):
        """Return the displacement of a Brownian step; its law is exact."""
        return on_circles(lambda xi, x: CIRCLE.brownian(xi, x, variance), xi, x)

    def spectral_gap(self, d):
        return 1.0


def circles(x: Float[Array, "*n d"]) -> Float[Array, "*n m 2"]:
    """Return points of the torus as points of m circles."""
    return x.reshape(*x.shape[:-1], -1, 2)


def on_circles(map: Callable[..., Array], *points: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return points of the torus after a map of circles is applied to each of their circles."""
    made = map(*(circles(x) for x in points))
    return made.reshape(*made.shape[:-2], -1)
