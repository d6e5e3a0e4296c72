"""The interface of a space: a surface in R^d with an inner product."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from .._kinds import Named

TOLERANCE = 1e-6

Points = Float[Array, "*n d"]


class AbstractSpace(Named, eqx.Module):
    """A surface in R^d with the inner product `<x, y> = sum_k s_k x_k y_k` of R^d, `s_k = ±1`.

    A new space is one file: a class with these methods. If it also has a Brownian motion, derive it from
    `AbstractBrownianSpace`; tokens can then have noise.

    Rows of arrays are points. `tangent` projects velocities onto the tangent space; `retract` and `exp` move points along the
    surface.
    """

    usual_d: ClassVar[int] = 3
    """The default dimension of R^d."""
    symbol: ClassVar[str] = "x"
    """The symbol of a coordinate of the chart."""
    period: ClassVar[float | None] = None
    """The period of the chart's coordinates, if they are angles."""
    ball: ClassVar[bool] = False
    """True if the chart is the unit ball, at whose boundary the space ends."""
    indefinite: ClassVar[bool] = False
    """True if some s_k are -1, so that the inner product is indefinite."""

    @abc.abstractmethod
    def signs(self, d: int) -> np.ndarray:
        """Return the signs s_1 … s_d of the inner product."""

    @abc.abstractmethod
    def project(self, x: Points) -> Points:
        """Return a point of the space near x (x itself if it lies in the space). Removes rounding errors after each step."""

    @abc.abstractmethod
    def tangent(self, x: Points, v: Points) -> Points:
        """Return the orthogonal projection `P_x v` of v onto the tangent space at x."""

    @abc.abstractmethod
    def retract(self, x: Points, v: Points) -> Points:
        """Return a point `x + P_x v + O(|v|^2)` of the space, for any v in R^d: the layer is `x <- retract(x, h A(x))`."""

    @abc.abstractmethod
    def exp(self, x: Points, v: Points) -> Points:
        """Return the point at time 1 of the geodesic that starts at x with tangent velocity v."""

    @abc.abstractmethod
    def log(self, x: Points, y: Points) -> Points:
        """Return the shortest tangent vector at x with `exp(x, log(x, y)) = y`."""

    @abc.abstractmethod
    def distance(self, x: Points, y: Points) -> Float[Array, "*n"]:
        """Return the length of the shortest geodesic from x to y."""

    @abc.abstractmethod
    def sample(self, xi: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Return random points, given standard normal numbers: uniform if the space has finite volume."""

    @abc.abstractmethod
    def chart(self, x: Points) -> Float[Array, "*n m"]:
        """Return the coordinates in which figures show a point."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise ValueError if there is no such space in R^d."""

    def lower(self, x: Points) -> Points:
        """Return the covector of x: `<x, y> = lower(x) · y`."""
        return jnp.asarray(self.signs(x.shape[-1]), x.dtype) * x if self.indefinite else x

    def inner(self, x: Points, y: Points) -> Float[Array, "*n"]:
        """Return `<x, y>` of rows."""
        return (self.lower(x) * y).sum(-1)

    def check_points(self, x: Float[Array, "n d"]) -> None:
        """Raise ValueError if a row of x does not lie in the space; not checked inside jit, vmap and grad."""
        self.check(x.shape[-1])
        if not is_concrete(x):
            return
        with jax.ensure_compile_time_eval():  # inside jit too
            errors = np.linalg.norm(np.asarray(x) - np.asarray(self.project(x)), axis=-1)
        worst = int(np.argmax(errors))
        if not errors[worst] <= TOLERANCE * (1 + np.linalg.norm(np.asarray(x)[worst])):
            raise ValueError(
                f"{type(self).__name__}: token {worst} is at a distance of {errors[worst]:.3g} from the space: start from "
                f"tokens_in({type(self).__name__}(), n, d), or project them first, {type(self).__name__}().project(x)"
            )


class AbstractBrownianSpace(AbstractSpace):
    """A space with a Brownian motion."""

    @abc.abstractmethod
    def brownian(self, xi: Float[Array, "#n d"], x: Float[Array, "n d"], variance: Array) -> Float[Array, "n d"]:
        """Return the displacement of a step of Brownian motion from x, given standard normal numbers xi.

        It has the given variance in each tangent direction, to first order; its law has weak order at least 2.
        """

    @abc.abstractmethod
    def spectral_gap(self, d: int) -> float:
        """Return the rate at which `e^{t Δ}` converges to the uniform measure; 0 if it does not."""


def lengths(x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    """Return `|x|` of each row, with derivative 0 where it is 0."""
    square = (x * x).sum(-1)
    return jnp.where(square == 0, 0, jnp.sqrt(jnp.where(square == 0, 1, square)))  # NaNs propagate
