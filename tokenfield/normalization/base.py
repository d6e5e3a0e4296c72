"""What a normalization rule is: how a token's direction and length respond to the output of a sublayer."""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import as_float, is_concrete

Sublayer = Callable[[Float[Array, "n d"]], Float[Array, "n d"]]


class AbstractNorm(eqx.Module):
    """A rule, as a layer with step h. Its flow, as h -> 0, depends on the subclass."""

    @abc.abstractmethod
    def layer(self, t: Float[Array, ""], x: Float[Array, "n d"], sublayer: Sublayer, h: float) -> Float[Array, "n d"]:
        """The tokens after one sublayer (attention or MLP) with step h at time t."""

    def check(self, d: int) -> None:
        """Raise a ValueError if the rule's own parameters do not fit tokens in R^d."""


class AbstractSphereNorm(AbstractNorm):
    """A rule that moves directions theta on the unit sphere and lengths r:

    `theta' = speed P A`,  `r' = growth`,  P the tangent projection at theta, A the sublayer's output.

    Both are written in `inner = <theta, A>` and `length = |A|`, so they serve one token or a whole family of
    equal ones. `speed` is 1/s in the table of FORMULAS §7.
    """

    radial: ClassVar[bool]
    """True when the length r evolves; otherwise tokens stay on a sphere of fixed radius."""
    scale_free: ClassVar[bool] = False
    """True when only the direction of A matters, so that a common factor of A does not change time."""

    @abc.abstractmethod
    def speed(self, t: Array, r: Array, inner: Array, length: Array) -> Array:
        """The factor in `theta' = speed P A`."""

    @abc.abstractmethod
    def growth(self, t: Array, r: Array, inner: Array, length: Array) -> Array:
        """The right side of `r' = growth`."""

    @property
    def isotropic(self) -> bool:
        """True when the rule commutes with rotations."""
        return True

    def radius(self, d: int) -> Array | None:
        """The length at which tokens must start; None when any positive length will do."""
        return None if self.radial else jnp.ones(())

    def reads(self, theta: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """What sublayers read of tokens with directions theta."""
        return theta

    def segments(self) -> tuple[tuple[float, "AbstractSphereNorm"], ...]:
        """`(until, rule)` pairs: the smooth rules that follow each other in time, the last until infinity."""
        return ((float("inf"), self),)


def unit(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """`N(x) = x / |x|`; 0 stays 0."""
    return x * inverse(jnp.linalg.norm(x, axis=-1, keepdims=True))


def inverse(length: Array) -> Array:
    """`1 / length`, and 0 where the length is 0."""
    return jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1), 0)


class Gain(eqx.Module):
    """The layer norm of R^d, `x -> g ⊙ (x/|x|) sqrt(d)`; without g the unit sphere, `x -> x/|x|`."""

    g: Array | None

    def __init__(self, g=None):
        self.g = None if g is None else as_float("gain", g, (0, 1))
        if self.g is not None and bool((self.g == 0).all()):
            raise ValueError("gain must not be zero everywhere")

    @property
    def uniform(self) -> bool:
        """True when it scales all coordinates alike; taken for granted inside jit, where the flow was let in already."""
        return self.g is None or not is_concrete(self.g) or bool((self.g == self.g.reshape(-1)[0]).all())

    def __call__(self, direction: Float[Array, "n d"]) -> Float[Array, "n d"]:
        if self.g is None:
            return direction
        return self.g.astype(direction.dtype) * direction * direction.shape[-1] ** 0.5

    def check(self, d: int) -> None:
        if self.g is not None and self.g.ndim == 1 and self.g.shape[0] != d:
            raise ValueError(f"gain must have length {d} for tokens in R^{d}, got {self.g.shape[0]}")


class AbstractGainNorm(AbstractSphereNorm):
    """A rule whose sublayers read through the layer norm of R^d."""

    gain: eqx.AbstractVar[Gain]

    def reads(self, theta):
        return self.gain(theta)

    @property
    def isotropic(self):
        return self.gain.g is None

    def check(self, d):
        self.gain.check(d)
