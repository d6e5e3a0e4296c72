"""What a space is: a surface in R^d, with its own inner product."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from .._kinds import Named

TOLERANCE = 1e-6

Points = Float[Array, "*n d"]


class AbstractSpace(Named, eqx.Module):
    """A surface in R^d with the inner product `<x, y> = sum_k s_k x_k y_k` of R^d, `s_k = ±1`.

    A new space is one file: a class with these methods. If it also has a Brownian motion, it derives from
    `AbstractBrownianSpace`, and then tokens may have noise there.

    Rows of arrays are points. `tangent` gives the velocities along the surface, `retract` and `exp` go from point to point.
    """

    usual_d: ClassVar[int] = 3
    """The dimension of R^d for runs that say none."""
    symbol: ClassVar[str] = "x"
    """The symbol of a coordinate of the chart."""
    period: ClassVar[float | None] = None
    """The period of the chart's coordinates, if they are angles."""
    ball: ClassVar[bool] = False
    """True if the chart is the unit ball, at whose boundary the space ends."""
    turned: ClassVar[bool] = False
    """True if some s_k are -1: then `signs` is not 1."""

    @abc.abstractmethod
    def signs(self, d: int) -> np.ndarray:
        """The signs s_1 … s_d of the inner product."""

    @abc.abstractmethod
    def project(self, x: Points) -> Points:
        """A point of the space near x: x itself if it lies there. It removes rounding errors after each step of a flow."""

    @abc.abstractmethod
    def tangent(self, x: Points, v: Points) -> Points:
        """The orthogonal projection `P_x v` of v to the tangent space at x."""

    @abc.abstractmethod
    def retract(self, x: Points, v: Points) -> Points:
        """A point `x + P_x v + O(|v|^2)` of the space, for any v of R^d: the layer `x <- retract(x, h A(x))`."""

    @abc.abstractmethod
    def exp(self, x: Points, v: Points) -> Points:
        """The end of the geodesic that leaves x with the tangent velocity v, after time 1."""

    @abc.abstractmethod
    def log(self, x: Points, y: Points) -> Points:
        """The tangent vector at x with `exp(x, log(x, y)) = y`, the shortest one."""

    @abc.abstractmethod
    def distance(self, x: Points, y: Points) -> Float[Array, "*n"]:
        """The length of the shortest geodesic from x to y."""

    @abc.abstractmethod
    def sample(self, xi: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Random points from standard normal numbers: uniform where the space has finite volume."""

    @abc.abstractmethod
    def chart(self, x: Points) -> Float[Array, "*n m"]:
        """The coordinates in which pictures show a point."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise a ValueError if there is no such space in R^d."""

    def lower(self, x: Points) -> Points:
        """The covector of x: `<x, y> = lower(x) · y`."""
        return jnp.asarray(self.signs(x.shape[-1]), x.dtype) * x if self.turned else x

    def inner(self, x: Points, y: Points) -> Float[Array, "*n"]:
        """`<x, y>` of rows."""
        return (self.lower(x) * y).sum(-1)

    def check_points(self, x: Float[Array, "n d"]) -> None:
        """Raise a ValueError if a row of x does not lie in the space; inside jit, vmap and grad nothing is checked."""
        self.check(x.shape[-1])
        if not is_concrete(x):
            return
        away = np.linalg.norm(np.asarray(x) - np.asarray(self.project(x)), axis=-1)
        worst = int(np.argmax(away))
        if not away[worst] <= TOLERANCE * (1 + np.linalg.norm(np.asarray(x)[worst])):
            raise ValueError(
                f"{type(self).__name__}: token {worst} is at a distance of {away[worst]:.3g} from the space: start from "
                f"tokens_in({type(self).__name__}(), n, d), or project them first, {type(self).__name__}().project(x)"
            )


class AbstractBrownianSpace(AbstractSpace):
    """A space with a Brownian motion."""

    @abc.abstractmethod
    def brownian(self, xi: Float[Array, "#n d"], x: Float[Array, "n d"], variance: Array) -> Float[Array, "n d"]:
        """A step of Brownian motion from x, less x, for standard normal numbers xi.

        Its length in a tangent direction has the variance given, to first order; its law has weak order 2 at least.
        """

    @abc.abstractmethod
    def spectral_gap(self, d: int) -> float:
        """The rate at which `e^{t Δ}` forgets where a point was; 0 if it does not."""


def lengths(x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    """`|x|` of each row, with the derivative 0 where it is 0."""
    square = (x * x).sum(-1)
    return jnp.where(square == 0, 0, jnp.sqrt(jnp.where(square == 0, 1, square)))  # NaNs propagate
