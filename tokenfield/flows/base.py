"""What a solver sees of a model and a state: a flow. And the table of which states close under which models."""

import abc
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Y = PyTree[Array]


class NoClosedEquation(ValueError):
    """The chosen state has no closed equation under the chosen model."""


class AbstractFlow(eqx.Module):
    """`y' = velocity(t, y)` on a space with its own retraction and its own measure of error."""

    @abc.abstractmethod
    def pack(self, state: Any) -> Y:
        """The unknowns that stand for a state."""

    @abc.abstractmethod
    def unpack(self, y: Y) -> Any:
        """The state that the unknowns stand for."""

    @abc.abstractmethod
    def velocity(self, t: Float[Array, ""], y: Y) -> Y:
        """The right side."""

    @abc.abstractmethod
    def retract(self, y: Y) -> Y:
        """The nearest point of the space, taken at the end of each step (the identity in R^d)."""

    @abc.abstractmethod
    def error_size(self, error: Y, y0: Y, y1: Y, rtol: float | Array, atol: float | Array) -> Float[Array, ""]:
        """The size of a step's error, 1 being what the tolerances allow."""

    def longest_step(self, t: Float[Array, ""], y: Y) -> Array | None:
        """The longest step that is stable, where errors would show too late that one is not; None for no limit."""
        return None

    @property
    @abc.abstractmethod
    def log_time_unit(self) -> Array:
        """Time runs in units of `exp(log_time_unit)`; 0 means plain time."""


class AbstractNoisyFlow(AbstractFlow):
    """A flow that is kicked at random, `dy = velocity(t, y) dt + noise`."""

    @abc.abstractmethod
    def kick(self, key: PRNGKeyArray, t: Float[Array, ""], y: Y, h: Float[Array, ""]) -> Y:
        """A random displacement: what noise alone does in time h, to be added to y before the retraction."""

    @abc.abstractmethod
    def rate(self, state: Any) -> float:
        """About the fastest rate of the drift and of the noise: steps should be a small part of its inverse."""


class Segment(eqx.Module):
    """A flow that is smooth up to the time `until`."""

    until: float = eqx.field(static=True)
    flow: AbstractFlow


def largest_ratio(
    error: Float[Array, "n d"], y0: Array, y1: Array, rtol: float | Array, atol: float | Array
) -> Float[Array, ""]:
    """`max_i |error_i| / (atol + rtol |y_i|)` with Euclidean lengths of rows: unlike a componentwise rule, it does
    not change under rotations."""
    length = lambda a: jnp.linalg.norm(a, axis=-1)  # noqa: E731
    return jnp.max(length(error) / (atol + rtol * jnp.maximum(length(y0), length(y1))))


@singledispatch
def segments(state: Any, model: Any) -> tuple[Segment, ...]:
    """The smooth flows, one after another in time, by which `model` moves a state like `state`.

    Registered once for each kind of state, in the file of that state's flow. Raises where the model does not keep
    such states, or the state cannot start there (`admit`).
    """
    raise NoClosedEquation(f"no flow is known for a state of type {type(state).__name__}; known: {_names(_OBSTACLES)}")


@singledispatch
def admit(state: Any, model: Any) -> None:
    """Raise a ValueError unless the values of a state are a start that the model allows."""


@singledispatch
def is_random(state: Any, model: Any) -> bool:
    """True when the model moves such a state at random, by an `AbstractNoisyFlow`; runs then need a seed."""
    return False


@singledispatch
def prepare(state: Any, model: Any, tolerance: float = 0.0) -> tuple[Any, Any, Callable[[Any], Any]]:
    """An equivalent, smaller problem, where there is one: `(state, model, lift)`; `lift` brings saved states back.

    Velocities may differ by much less than `tolerance`, and by rounding if it is 0.
    """
    return state, model, lambda states: states


@singledispatch
def prepare_all(first: Any, states: Sequence[Any], model: Any) -> list[tuple[Any, Any, Callable[[Any], Any]]]:
    """`prepare` for many states like `first` under one model, quicker where they can share the work."""
    return [prepare(state, model) for state in states]


@singledispatch
def admit_all(first: Any, states: Sequence[Any], model: Any) -> None:
    """`admit` for many states like `first` under one model."""
    for state in states:
        admit(state, model)


Obstacle = Callable[[Any], str | None]
_OBSTACLES: dict[type, Obstacle] = {}


def obstacle(kind: type) -> Callable[[Obstacle], Obstacle]:
    """Registers, for a kind of state, the function that says why a model does not keep it (None: it does)."""

    def register(function: Obstacle) -> Obstacle:
        _OBSTACLES[kind] = function
        return function

    return register


def states_that_close(model: Any) -> tuple[type, ...]:
    """The kinds of state that have a closed equation under a model."""
    return tuple(kind for kind, function in _OBSTACLES.items() if function(model) is None)


def require_closed(state: Any, model: Any) -> None:
    """Raise `NoClosedEquation` if the model does not keep this kind of state, saying which kinds it does keep."""
    reason = _OBSTACLES[type(state)](model)
    if reason is not None:
        others = _names(states_that_close(model)) or "none"
        raise NoClosedEquation(
            f"{type(state).__name__} has no closed equation under this model: {reason}. States that this model keeps: "
            f"{others}"
        )


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def rules_in_time(model: Any) -> list[tuple[float, Any]]:
    """`(until, rule)`: the norm's smooth rules one after another, cut also at the model's breakpoints."""
    rules = model.norm.segments() if hasattr(model.norm, "segments") else ((float("inf"), model.norm),)
    ends = sorted({until for until, _ in rules} | {time for time in model.breakpoints if time > 0})
    return [(end, next(rule for until, rule in rules if end <= until)) for end in ends]
