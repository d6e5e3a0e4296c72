"""Flows: the interface between a model with a state and a solver. Also the table of which states close under which models."""

import abc
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from .._check import is_concrete
from ..states import Tokens
from ..states.tokens import wrap_hint

Y = PyTree[Array]


class NoClosedEquation(ValueError):
    """The chosen state has no closed equation under the chosen model."""


class Limits(NamedTuple):
    """Where a flow ends, and what bounds its steps in addition to the tolerances. By default, nothing.

    Args:
        contains: whether the right-hand side is defined at y; a step that ends elsewhere is rejected.
        vanishing: given y and its velocity, the time until a token reaches length 0 at this velocity, and the angle by which
            its direction rotates until then.
        hidden: whether rounding errors no longer allow the solution to continue from y.
        unresolved: whether the unknowns y are too few for the state, so that more are needed.
        hidden_reason: what is lost where y is hidden or unresolved, for messages.
        longest_step: given t and y, the longest stable step, where error control would notice an instability too late.
        roughness: given the error of a step and the unknowns at its ends, a second size of the error; at most 1 is accepted.
        overflow_advice: what to do on overflow, for messages.
    """

    contains: Callable[[Any], Bool[Array, ""]] = lambda y: jnp.array(True)
    vanishing: Callable[[Any, Any], tuple[Array, Array]] = lambda y, velocity: (jnp.array(jnp.inf), jnp.zeros(()))
    hidden: Callable[[Any], Bool[Array, ""]] = lambda y: jnp.array(False)
    unresolved: Callable[[Any], Bool[Array, ""]] = lambda y: jnp.array(False)
    hidden_reason: str = ""
    longest_step: Callable[[Array, Any], Array | None] = lambda t, y: None
    roughness: Callable[[Any, Any, Any], Array] | None = None
    overflow_advice: str = "stop earlier"


class AbstractFlow(eqx.Module):
    """The equation `y' = velocity(t, y)` on a space with its own retraction and its own measure of error."""

    @abc.abstractmethod
    def pack(self, state: Any) -> Y:
        """Return the unknowns that represent a state."""

    @abc.abstractmethod
    def unpack(self, y: Y) -> Any:
        """Return the state that the unknowns represent."""

    @abc.abstractmethod
    def velocity(self, t: Float[Array, ""], y: Y) -> Y:
        """Return the right-hand side dy/dt."""

    @abc.abstractmethod
    def retract(self, y: Y) -> Y:
        """Return the nearest point of the space; called at the end of each step (the identity in R^d)."""

    @abc.abstractmethod
    def relative_size(self, change: Y, y0: Y, y1: Y, rtol: float | Array, atol: float | Array) -> Float[Array, ""]:
        """Return the size of a change from y0 to y1, relative to `atol + rtol |y|`."""

    def error_size(self, error: Y, y0: Y, y1: Y, rtol: float | Array, atol: float | Array) -> Float[Array, ""]:
        """Return the size of a step's error, relative to the tolerances: at most 1 is accepted."""
        size, roughness = self.relative_size(error, y0, y1, rtol, atol), self.limits.roughness
        return size if roughness is None else jnp.maximum(size, roughness(error, y0, y1))

    def change_size(self, change: Y, y0: Y, y1: Y) -> Float[Array, ""]:
        """Return the size of a change of y, relative to y."""
        return self.relative_size(change, y0, y1, 1.0, 1e-300)

    @property
    @abc.abstractmethod
    def limits(self) -> Limits:
        """Return where the flow ends and what bounds its steps; `Limits()` if nothing does."""

    @property
    @abc.abstractmethod
    def log_time_unit(self) -> Array:
        """Logarithm of the unit of time; 0 means plain time."""


class AbstractSpectralFlow(AbstractFlow):
    """A flow of coefficients, `y' = drift(t, y) - decay y`, whose number can be increased during a run."""

    decay: eqx.AbstractVar[Array]
    """The stiff linear part, one rate for each coefficient."""

    @abc.abstractmethod
    def drift(self, t: Float[Array, ""], y: Y) -> Y:
        """Return the rest of the right-hand side."""

    @property
    @abc.abstractmethod
    def edge(self) -> float:
        """The largest size of the last coefficients, relative to all of them, at which no more coefficients are needed."""


class AbstractRescaledFlow(AbstractFlow):
    """A flow in the variables `z = Phi^{-1} x`, whose tokens x may be too large for a double."""

    @abc.abstractmethod
    def scaled(self, t: Float[Array, ""], y: Y) -> tuple[Float[Array, "n d"], Float[Array, ""]]:
        """Return `e^{-c} x` and c."""


class AbstractNoisyFlow(AbstractFlow):
    """A flow with noise, `dy = velocity(t, y) dt + noise`."""

    @abc.abstractmethod
    def kick(self, key: PRNGKeyArray, t: Float[Array, ""], y: Y, h: Float[Array, ""]) -> Y:
        """Return a random displacement: the effect of the noise alone in time h, to be added to y before the retraction."""

    @abc.abstractmethod
    def scattered(self, y: Y) -> Any:
        """Return what a step moves: the unknowns themselves, or points that carry the mass of a density."""

    @abc.abstractmethod
    def gathered(self, y: Any) -> Y:
        """Return the unknowns after a step has moved what `scattered` returned."""

    @abc.abstractmethod
    def rate(self, state: Any) -> Any:
        """Return an estimate of the fastest rate of the drift and the noise. Steps should be a small fraction of its inverse.

        It is a float, or an array inside jit, vmap or grad.
        """


class Segment(eqx.Module):
    """A flow that is smooth up to the time `until`."""

    end: float | None = eqx.field(static=True)
    """The time as a float; None if it is traced, as it may be inside jit, vmap or grad."""
    traced_end: Array | None
    flow: AbstractFlow

    def __init__(self, until: float | Array, flow: AbstractFlow):
        known = is_concrete(until)
        self.end, self.traced_end = (float(until), None) if known else (None, jnp.asarray(until))
        self.flow = flow

    @property
    def until(self) -> Any:
        """The time up to which the flow is smooth: a float, or an array inside jit, vmap or grad."""
        return self.traced_end if self.end is None else self.end


def largest_ratio(
    error: Float[Array, "*n d"], y0: Array, y1: Array, rtol: float | Array, atol: float | Array
) -> Float[Array, ""]:
    """Return `max_i |error_i| / (atol + rtol |y_i|)` with Euclidean lengths of rows.

    Unlike a componentwise rule, it is invariant under rotations.
    """
    return jnp.max(_length(error) / (atol + rtol * jnp.maximum(_length(y0), _length(y1))))


def largest_length(a: Float[Array, "*n d"]) -> Float[Array, ""]:
    """Return the largest Euclidean length of a row."""
    return jnp.max(_length(a))


def _length(a: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    """Return the lengths of rows, even where their squares would overflow."""
    scale = jnp.where(jnp.abs(a).max() > 1e150, 1e-200, 1.0)
    return jnp.linalg.norm(scale * a, axis=-1) / scale


def length_ratio(error: Array, r0: Array, r1: Array, rtol: float | Array, atol: float | Array) -> Float[Array, ""]:
    """Return the size of an error of lengths r > 0. It is relative to r where r is small, so that no step jumps over 0.

    At length r, directions rotate at a rate 1/r. Steps are a fraction of r, whether a token passes near 0 or ends there.
    """
    near = (rtol + atol) * jnp.minimum(r0, r1)
    return jnp.max(jnp.abs(error) / jnp.minimum(near, atol + rtol * jnp.maximum(r0, r1)))


def time_to_zero(r: Array, growth: Array, turning: Array) -> tuple[Array, Array]:
    """Return `r / -r'` of the first token to reach 0 (infinite if none shrinks), and the angle by which it rotates until then."""
    time = jnp.atleast_1d(jnp.where(growth < 0, r / -jnp.where(growth < 0, growth, -1), jnp.inf))
    first = jnp.argmin(time)
    return time[first], time[first] * jnp.atleast_1d(turning)[first]


@singledispatch
def segments(state: Any, model: Any) -> tuple[Segment, ...]:
    """Return the smooth flows, one after another in time, of a state like `state` under `model`.

    Registered once for each kind of state, in the file of that state's flow. Raises if the state has no closed equation
    under the model, or if the model does not allow this initial state (`admit`).
    """
    hint = wrap_hint(state) or ", which has no flow"
    raise NoClosedEquation(f"state must be one of {_names(_OBSTACLES)}, got {type(state).__name__}{hint}")


@singledispatch
def admit(state: Any, model: Any) -> None:
    """Raise ValueError unless the model allows this initial state."""


@singledispatch
def is_random(state: Any, model: Any) -> bool:
    """Return True if the flow of such a state is an `AbstractNoisyFlow`; runs then need a seed."""
    return False


class Reduction(NamedTuple):
    """An equivalent problem that is cheaper to run.

    Args:
        state, model: the reduced problem.
        names: names of the reductions, e.g. "span" or "series", as recorded in results.
        lift: maps states of the reduced problem (stacked along time) back to the original one.
    """

    state: Any
    model: Any
    names: tuple[str, ...] = ()
    lift: Callable[[Any], Any] = lambda states: states


@singledispatch
def reduced(state: Any, model: Any, tolerance: float = 0.0) -> Reduction:
    """Return an equivalent, cheaper problem if there is one, otherwise the problem itself.

    Its velocities differ by much less than `tolerance`, or by rounding errors only if `tolerance` is 0.
    """
    return Reduction(state, model)


@singledispatch
def reduced_all(first: Any, states: Sequence[Any], model: Any, tolerance: float = 0.0) -> list[Reduction]:
    """Apply `reduced` to many states like `first` under one model; faster where they can share the work."""
    return [reduced(state, model, tolerance) for state in states]


@singledispatch
def admit_all(first: Any, states: Sequence[Any], model: Any) -> None:
    """Apply `admit` to many states like `first` under one model."""
    for state in states:
        admit(state, model)


Obstacle = Callable[[Any], str | None]
_OBSTACLES: dict[type, Obstacle] = {}


def obstacle(kind: type) -> Callable[[Obstacle], Obstacle]:
    """Register, for a kind of state, the function that says why it has no closed equation under a model (None: it has one)."""

    def register(function: Obstacle) -> Obstacle:
        _OBSTACLES[kind] = function
        return function

    return register


def _obstacle(kind: type, model: Any) -> str | None:
    """Return why a kind of state has no closed equation under a model, or None if it has one."""
    if model.context is not None and kind is not Tokens:
        return "attention to a context moves points only"
    if model.depth is not None and kind is not Tokens:
        return "weights by layer move points only: choose one, model.at_layer(0)"
    return _OBSTACLES[kind](model)


def states_that_close(model: Any) -> tuple[type, ...]:
    """Return the kinds of state that have a closed equation under a model."""
    return tuple(kind for kind in _OBSTACLES if _obstacle(kind, model) is None)


def require_closed(state: Any, model: Any) -> None:
    """Raise `NoClosedEquation` if the state has no closed equation under the model; the error lists the states that do."""
    reason = _obstacle(type(state), model)
    if reason is not None:
        others = _names(states_that_close(model)) or "none"
        raise NoClosedEquation(
            f"{type(state).__name__} has no closed equation under this model: {reason}. States that do have one: "
            f"{others}"
        )


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def rules_in_time(model: Any) -> list[tuple[float | Array, Any]]:
    """Return pairs `(until, rule)`: the smooth rules of the norm, one after another, also split at the model's breakpoints."""
    rules = model.norm.segments()
    if not is_concrete(*(until for until, _ in rules)):
        if any(time > 0 for time in model.breakpoints):
            raise ValueError(
                f"breakpoints = {model.breakpoints} cannot be combined with a traced tau of {type(model.norm).__name__}: inside "
                "jit, vmap or grad their order is not known; use a plain number for tau"
            )
        return list(rules)
    ends = sorted({until for until, _ in rules} | {time for time in model.breakpoints if time > 0})
    return [(end, next(rule for until, rule in rules if end <= until)) for end in ends]
