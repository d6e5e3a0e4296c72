"""The interface of a basis of harmonics: functions at nodes, and their coefficients."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete


def constant(table: np.ndarray) -> Array:
    """Return a table as an array whose values are known even inside jit."""
    with jax.ensure_compile_time_eval():
        return jnp.asarray(table, float)


class AbstractHarmonics(eqx.Module):
    """Orthonormal harmonics up to a degree, with respect to the uniform *probability* on the sphere of R^d.

    Coefficients are arrays of the shape `shape`, and so is `degree`, which is -1 where there is no harmonic.
    There are enough nodes to project the product of two functions without error.
    """

    modes: eqx.AbstractVar[int]
    """The largest degree."""
    d: eqx.AbstractVar[int]
    degree: eqx.AbstractVar[Float[Array, "..."]]

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the coefficients."""

    @property
    @abc.abstractmethod
    def nodes(self) -> Float[Array, "N d"]:
        """The nodes as points of the sphere."""

    @property
    @abc.abstractmethod
    def node_weights(self) -> Float[Array, " N"]:
        """The weights of the nodes in integrals over the sphere; they sum to 1."""

    @abc.abstractmethod
    def values(self, c: Float[Array, "..."]) -> Float[Array, " N"]:
        """Return the function at the nodes."""

    @abc.abstractmethod
    def coefficients(self, values: Float[Array, " N"]) -> Float[Array, "..."]:
        """Return `∫ f phi dsigma` for every harmonic phi, f given at the nodes."""

    @abc.abstractmethod
    def at(self, c: Float[Array, "..."], x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Return the function at any points of the sphere."""

    @abc.abstractmethod
    def moments(self, x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, "..."]:
        """Return `sum_j w_j phi(x_j)` for every harmonic: the coefficients of weighted tokens."""

    @abc.abstractmethod
    def resized(self, modes: int) -> "AbstractHarmonics":
        """Return the same basis up to another degree."""

    @abc.abstractmethod
    def embed(self, c: Float[Array, "..."], modes: int) -> Float[Array, "..."]:
        """Return the same function in the basis up to another degree: zeros are added, or the highest degrees dropped."""

    @property
    def laplacian(self) -> Float[Array, "..."]:
        """Minus the eigenvalues of the Laplacian, `l (l + d - 2)`; 0 where there is no harmonic."""
        degree = np.asarray(self.degree) if is_concrete(self.degree) else self.degree  # NumPy needs no compilation
        return jnp.asarray((degree * (degree + self.d - 2)) * (degree > 0), float)
