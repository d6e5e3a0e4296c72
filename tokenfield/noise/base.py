"""What noise is: random pushes of every token, of strength `2/kappa`."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._kinds import Named
from .._xla.arrays import materialize


class AbstractNoise(Named, eqx.Module):
    """Noise of inverse temperature kappa, in the time of the run.

    A new kind says where tokens live (`on_sphere`), how many Gaussian numbers a push takes (`draws`) and what it does
    with them (`displacement`).
    """

    kappa: eqx.AbstractVar[Array]
    on_sphere: eqx.AbstractClassVar[bool]
    """True for tokens on the unit sphere, False for tokens in R^d."""

    @abc.abstractmethod
    def draws(self, n: int, d: int) -> tuple[int, ...]:
        """The shape of the independent standard normal numbers behind one push of n tokens in R^d."""

    @abc.abstractmethod
    def displacement(self, xi: Float[Array, "..."], x: Float[Array, "n d"], h: Float[Array, ""]) -> Float[Array, "n d"]:
        """Where noise alone takes tokens x in time h, less x, for given normal numbers xi."""

    def kick(self, key: PRNGKeyArray, x: Float[Array, "n d"], h: Float[Array, ""]) -> Float[Array, "n d"]:
        """A random displacement of tokens x in time h."""
        shape = self.draws(*x.shape)
        xi = jax.random.normal(key, (math.prod(shape),), x.dtype)  # the numbers of `shape`, twice as fast
        return self.displacement(materialize(xi, h < 0).reshape(shape), x, h)

    @abc.abstractmethod
    def rate(self, x: Float[Array, "n d"]) -> Array:
        """At most the rate at which tokens x forget where they were, as in `e^{-rate t}`; 0 in R^d."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise a ValueError if the noise's own parameters do not fit tokens in R^d."""


def tangent(x: Float[Array, "n d"], v: Float[Array, "#n d"]) -> Float[Array, "n d"]:
    """`P_x v = v - <x, v> x`."""
    return v - (x * v).sum(-1, keepdims=True) * x


def along_great_circle(x: Float[Array, "n d"], v: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """`exp_x(v) - x` for unit x and tangent v: the great circle from x, followed over a length |v|."""
    square = (v * v).sum(-1, keepdims=True)
    length = jnp.sqrt(jnp.where(square > 0, square, 1)) * (square > 0)  # differentiable at v = 0
    return jnp.sinc(length / jnp.pi) * v - 2 * jnp.sin(length / 2) ** 2 * x
