"""What noise is: random pushes of every token, of strength `2/kappa`."""

import abc
import math

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from .._kinds import Named
from .._xla.arrays import materialize
from ..spaces import AbstractSpace


class AbstractNoise(Named, eqx.Module):
    """Noise of inverse temperature kappa, in the time of the run.

    A new kind says in which spaces it acts (`space`), how many Gaussian numbers a push takes (`draws`) and what it does with
    them (`displacement`).
    """

    kappa: eqx.AbstractVar[Array]
    space: eqx.AbstractClassVar[type[AbstractSpace]]
    """The class of the spaces in which it acts."""

    @abc.abstractmethod
    def draws(self, n: int, d: int) -> tuple[int, ...]:
        """Return the shape of the independent standard normal numbers behind one push of n tokens in R^d."""

    @abc.abstractmethod
    def displacement(
        self, xi: Float[Array, "..."], x: Float[Array, "n d"], h: Float[Array, ""], space: AbstractSpace
    ) -> Float[Array, "n d"]:
        """Where noise alone takes tokens x of a space in time h, less x, for given normal numbers xi."""

    def kick(
        self, key: PRNGKeyArray, x: Float[Array, "n d"], h: Float[Array, ""], space: AbstractSpace
    ) -> Float[Array, "n d"]:
        """Return a random displacement of tokens x of a space in time h."""
        shape = self.draws(*x.shape)
        xi = jax.random.normal(key, (math.prod(shape),), x.dtype)  # the numbers of `shape`, twice as fast
        return self.displacement(materialize(xi, h < 0).reshape(shape), x, h, space)

    @abc.abstractmethod
    def rate(self, x: Float[Array, "n d"], space: AbstractSpace) -> Array:
        """At most the rate at which tokens x of a space forget where they were, as in `e^{-rate t}`; 0 in R^d."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise a ValueError if the noise's own parameters do not fit tokens in R^d."""
