"""The unit sphere."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .base import AbstractBrownianSpace, lengths


class Sphere(AbstractBrownianSpace):
    """The unit sphere of R^d, `|x| = 1`. `Transformer(..., space=Sphere())` has the norm `PostLN()`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Sphere().distance(tkf.uniform_sphere(4, 3, seed=0).x, tkf.uniform_sphere(4, 3, seed=1).x)
        Array([1.33719265, 2.01137128, 1.83926997, 2.00296108], dtype=float64)
    """

    kind: ClassVar[str] = "sphere"
    title: ClassVar[str] = "sphere"

    def signs(self, d):
        return np.ones(d)

    def project(self, x):
        return unit(x)

    def tangent(self, x, v):
        return v - (x * v).sum(-1, keepdims=True) * x

    def retract(self, x, v):
        return unit(x + v)

    def exp(self, x, v):
        return x + along_great_circle(x, v)

    def log(self, x, y):
        angle = self.distance(x, y)[..., None]
        return self.tangent(x, y) / jnp.sinc(angle / jnp.pi)

    def distance(self, x, y):
        # From chords: arccos <x, y> loses all digits for points close together, arcsin for opposite points.
        return 2 * jnp.arctan2(lengths(x - y), lengths(x + y))

    def sample(self, xi):
        return unit(xi)

    def chart(self, x):
        return x

    def check(self, d):
        if d < 2:
            raise ValueError(f"Sphere needs d >= 2, got d = {d}")

    def brownian(self, xi, x, variance):
        """Return the displacement of a Brownian step; its law is exact on the circle.

        Great circles diverge more slowly than lines in the flat space in which xi is drawn. Relative to flat space, a length r
        has the additional drift `(d-2)(cot r - 1/r) ≈ -(d-2) r/3`, so a step is shortened by `(d-2) variance/12`.
        """
        shorter = jnp.exp(-(x.shape[-1] - 2) * variance / 12)
        return along_great_circle(x, jnp.sqrt(variance) * shorter * self.tangent(x, xi))

    def spectral_gap(self, d):
        return d - 1.0


def unit(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return `N(x) = x / |x|`; 0 stays 0.

    Example:
        >>> import jax.numpy as jnp
        >>> from tokenfield.normalization import unit
        >>> unit(jnp.array([[3.0, 4.0], [0.0, 0.0]]))
        Array([[0.6, 0.8],
               [0. , 0. ]], dtype=float64)
    """
    return x * inverse(lengths(x)[..., None])


def inverse(length: Array) -> Array:
    """Return `1 / length`, and 0 where the length is 0."""
    return jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)


def along_great_circle(x: Float[Array, "*n d"], v: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return `exp_x(v) - x` for unit x and tangent v: the great circle from x, followed over a length |v|."""
    square = (v * v).sum(-1, keepdims=True)
    size = jnp.sqrt(jnp.where(square > 0, square, 1)) * (square > 0)  # differentiable at v = 0
    return jnp.sinc(size / jnp.pi) * v - 2 * jnp.sin(size / 2) ** 2 * x
