"""The derivative of a map of tokens at one point, as a linear map with its transpose."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class AbstractDerivative(eqx.Module):
    """A linear map D from displacements of tokens, (n, d), to displacements of outputs, (n, d')."""

    @abc.abstractmethod
    def apply(self, e: Float[Array, "n d"]) -> Float[Array, "n dv"]:
        """Return `D e`."""

    @abc.abstractmethod
    def transpose(self, u: Float[Array, "n dv"]) -> Float[Array, "n d"]:
        """Return `D^T u`."""


class Autodiff(AbstractDerivative):
    """The derivative of any function of the tokens, by automatic differentiation."""

    function: Callable
    x: Float[Array, "n d"]

    def apply(self, e):
        return jax.jvp(self.function, (self.x,), (e,))[1]

    def transpose(self, u):
        return jax.vjp(self.function, self.x)[1](u)[0]


class Sum(AbstractDerivative):
    """`sum_h c_h D_h`."""

    parts: tuple[AbstractDerivative, ...]
    factors: tuple[Array, ...]

    def apply(self, e):
        return sum(c * part.apply(e) for c, part in zip(self.factors, self.parts, strict=True))

    def transpose(self, u):
        return sum(c * part.transpose(u) for c, part in zip(self.factors, self.parts, strict=True))


class Shifted(AbstractDerivative):
    """`shift I + factor D`: shift = 1 adds a residual connection, shift = -1 removes it."""

    part: AbstractDerivative
    shift: Array
    factor: Array

    def apply(self, e):
        return self.shift * e + self.factor * self.part.apply(e)

    def transpose(self, u):
        return self.shift * u + self.factor * self.part.transpose(u)


class Chain(AbstractDerivative):
    """The product of derivatives, `D_L … D_1`."""

    parts: tuple[AbstractDerivative, ...]

    def apply(self, e):
        for part in self.parts:
            e = part.apply(e)
        return e

    def transpose(self, u):
        for part in reversed(self.parts):
            u = part.transpose(u)
        return u


class Weighted(AbstractDerivative):
    """`M^{1/2} D M^{-1/2}`: the derivative in coordinates in which `|X|^2 = n sum_i m_i |x_i|^2` is the Euclidean norm."""

    part: AbstractDerivative
    root: Float[Array, "n 1"]

    @classmethod
    def of(cls, part: AbstractDerivative, weights: Float[Array, " n"]) -> "Weighted":
        return cls(part, jnp.sqrt(len(weights) * weights)[:, None])

    def apply(self, e):
        return self.root * self.part.apply(e / self.root)

    def transpose(self, u):
        return self.part.transpose(self.root * u) / self.root
