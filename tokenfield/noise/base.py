"""The interface of noise: random displacements of every token, of strength `2/kappa`."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from .._kinds import Named
from .._xla.arrays import normal
from ..spaces import AbstractSpace


class AbstractNoise(Named, eqx.Module):
    """Noise of inverse temperature kappa, in the time of the run.

    A new kind defines in which spaces it acts (`space`), how many normal numbers a displacement needs (`draws`), the
    displacement itself (`displacement`), the decay of correlations (`rate`) and which dimensions fit it (`check`).
    """

    kappa: eqx.AbstractVar[Array]
    space: eqx.AbstractClassVar[type[AbstractSpace]]
    """The class of the spaces in which the noise acts."""

    @abc.abstractmethod
    def draws(self, n: int, d: int) -> tuple[int, ...]:
        """Return the shape of the independent standard normal numbers for one displacement of n tokens in R^d."""

    @abc.abstractmethod
    def displacement(
        self, xi: Float[Array, "..."], x: Float[Array, "n d"], h: Float[Array, ""], space: AbstractSpace
    ) -> Float[Array, "n d"]:
        """Return the displacement of tokens x of a space by the noise alone in time h, for given standard normal numbers xi."""

    def kick(
        self, key: PRNGKeyArray, x: Float[Array, "n d"], h: Float[Array, ""], space: AbstractSpace
    ) -> Float[Array, "n d"]:
        """Return a random displacement of tokens x of a space in time h."""
        shape = self.draws(*x.shape)
        return self.displacement(normal(key, shape, x.dtype, h < 0), x, h, space)

    @abc.abstractmethod
    def rate(self, x: Float[Array, "n d"], space: AbstractSpace) -> Array:
        """Return an upper bound of the rate at which correlations with the start decay, as in `e^{-rate t}`; 0 in R^d."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise a ValueError if the noise's own parameters do not fit tokens in R^d."""
