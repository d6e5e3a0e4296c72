"""The interface of a normalization rule: how a token's direction and length respond to the output of a sublayer."""

import abc
import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, is_concrete
from .._kinds import Named
from ..spaces import AbstractSpace, Sphere
from ..spaces.base import lengths as lengths
from ..spaces.sphere import inverse as inverse
from ..spaces.sphere import unit as unit

Rule = TypeVar("Rule", bound="AbstractNorm")
Sublayer = Callable[[Float[Array, "n d"]], Float[Array, "n d"]]


class TerminalLaw(NamedTuple):
    """How `1 - rho` decays to 0.

    `text` describes the law; `kind` is "exponential" (`e^{-rate t}`), "power" (`t^{-rate}`) or "stretched"
    (`e^{-rate sqrt(t)}`).
    """

    text: str
    kind: str
    rate: float


class AbstractNorm(Named, eqx.Module):
    """A normalization rule, given by its layer with step h. The subclass defines the flow, the limit h -> 0."""

    needs_length: ClassVar[bool] = False
    """True if a token of length 0 cannot be normalized; a layer then leaves it at 0."""

    @abc.abstractmethod
    def layer(
        self, t: Float[Array, ""], x: Float[Array, "n d"], sublayer: Sublayer, h: float | Array
    ) -> Float[Array, "n d"]:
        """Return the tokens after one sublayer (attention or MLP) with step h at time t."""

    @abc.abstractmethod
    def inputs(self, t: Array, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Return the input of sublayers for tokens x at time t: x itself if the norm acts after them, otherwise the norm of x."""

    @property
    @abc.abstractmethod
    def space(self) -> AbstractSpace:
        """The space in which tokens are compared: their own space, or that of their directions if their lengths evolve."""

    @property
    @abc.abstractmethod
    def isotropic(self) -> bool:
        """True if the rule commutes with rotations."""

    @abc.abstractmethod
    def segments(self) -> "tuple[tuple[float | Array, AbstractNorm], ...]":
        """Return `(until, rule)` pairs: the smooth rules that follow each other in time, the last until infinity."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise ValueError if the rule's own parameters do not fit tokens in R^d."""


class AbstractSphereNorm(AbstractNorm):
    """A rule that moves directions theta on the unit sphere and lengths r:

    `theta' = speed P A`,  `r' = growth`,  P the tangent projection at theta, A the sublayer's output.

    Both are functions of `inner = <theta, A>` and `length = |A|`, so they apply to one token or to equiangular tokens.
    `speed` is 1/s in the table of FORMULAS §7. A rule may also provide its theoretical laws: `slowness`,
    `terminal_law` and `random_weight_law`.
    """

    needs_length: ClassVar[bool] = True
    radial: ClassVar[bool]
    """True if the length r evolves; otherwise tokens stay on a sphere of fixed radius."""
    scale_free: ClassVar[bool] = False
    """True if only the direction of A matters, so that a common factor of A does not change the dynamics."""
    slowness: ClassVar[str] = "s = 1/speed"
    """The formula of `s = 1/speed`, for tables of predictions."""

    @property
    def space(self):
        return Sphere()

    @abc.abstractmethod
    def speed(self, t: Array, r: Array, inner: Array, length: Array) -> Array:
        """Return the factor in `theta' = speed P A`."""

    @abc.abstractmethod
    def growth(self, t: Array, r: Array, inner: Array, length: Array) -> Array:
        """Return the right-hand side of `r' = growth`."""

    @abc.abstractmethod
    def segments(self) -> "tuple[tuple[float | Array, AbstractSphereNorm], ...]":
        """Return `(until, rule)` pairs: the smooth rules that follow each other in time, the last until infinity."""

    @abc.abstractmethod
    def radius(self, d: int) -> Array | None:
        """Return the length that initial tokens must have; None if any positive length is allowed."""

    @abc.abstractmethod
    def reads(self, theta: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Return the input of sublayers for tokens with directions theta."""

    @property
    @abc.abstractmethod
    def reads_directions(self) -> bool:
        """True if sublayers read theta itself, so that their inputs have length 1."""

    def terminal_law(self, scale: float) -> TerminalLaw:
        """Return how `1 - rho` of equiangular tokens decays to 0 as t grows, where `A = scale theta` in the limit."""
        raise ValueError(f"norm: {type(self).__name__} does not define terminal_law")

    def random_weight_law(self, step: float) -> TerminalLaw:
        """Return how `1 - rho` decays to 0 with the layer number l, in layers of this step size with random weights."""
        raise ValueError(f"norm: {type(self).__name__} does not define random_weight_law")


class AbstractDirectionNorm(AbstractSphereNorm):
    """A rule whose sublayers read the directions of tokens."""

    def reads(self, theta):
        return theta

    @property
    def reads_directions(self):
        return True

    @property
    def isotropic(self):
        return True


def forever(rule: Rule) -> tuple[tuple[float, Rule], ...]:
    """Return the segments of a rule that does not change with time: the rule itself, until infinity.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.normalization.forever(tkf.PostLN())
        ((inf, PostLN()),)
    """
    return ((math.inf, rule),)


def plus(x: Float[Array, "*n d"], update: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return `x + update`, exactly 0 where the two cancel to rounding, because the remainder has no meaningful direction."""
    total = x + update
    rounding = 16 * jnp.finfo(x.dtype).eps * jnp.linalg.norm(x, axis=-1, keepdims=True)
    return jnp.where(jnp.linalg.norm(total, axis=-1, keepdims=True) < rounding, 0, total)  # NaNs propagate


class Gain(eqx.Module):
    """The layer norm of R^d, `x -> g ⊙ (x/|x|) sqrt(d)`; without g the unit sphere, `x -> x/|x|`."""

    g: Array | None

    def __init__(self, g=None):
        self.g = None if g is None else as_float("gain", g, (0, 1))
        if self.g is not None and is_concrete(self.g) and not np.asarray(self.g).any():
            raise ValueError("gain must not be zero everywhere")

    @property
    def uniform(self) -> bool:
        """True if all coordinates are scaled equally; assumed inside jit, because the flow was checked before."""
        if self.g is None or not is_concrete(self.g):
            return True
        g = np.asarray(self.g)  # not jax.numpy, whose values are not known inside jit
        return bool((g == g.reshape(-1)[0]).all())

    def __call__(self, direction: Float[Array, "n d"]) -> Float[Array, "n d"]:
        if self.g is None:
            return direction
        return self.g.astype(direction.dtype) * direction * direction.shape[-1] ** 0.5

    def check(self, d: int) -> None:
        if self.g is not None and self.g.ndim == 1 and self.g.shape[0] != d:
            raise ValueError(f"gain must have length {d} for tokens in R^{d}, got {self.g.shape[0]}")


class AbstractGainNorm(AbstractSphereNorm):
    """A rule whose sublayers read the output of the layer norm of R^d."""

    gain: eqx.AbstractVar[Gain]

    def reads(self, theta):
        return self.gain(theta)

    @property
    def reads_directions(self):
        return self.gain.g is None

    @property
    def isotropic(self):
        return self.gain.g is None

    def check(self, d):
        self.gain.check(d)
