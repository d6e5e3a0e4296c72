"""Observables: pure functions of a state, evaluated on one state, along a run, or along an ensemble."""

import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, overload

import jax
import jax.numpy as jnp
import numpy as np

from .._check import is_concrete
from .._jax import require_double
from .._kinds import find_function, named, parameters
from .._shown import did_you_mean, shown
from ..results import Ensemble, Trajectory
from ..states import AbstractState

if TYPE_CHECKING:
    import xarray


class Observable(Protocol):
    """The call signature of an observable: of a state, a `Trajectory` or an `Ensemble`."""

    @overload
    def __call__(self, state: Trajectory | Ensemble, *args: Any, **options: Any) -> "xarray.DataArray": ...
    @overload
    def __call__(self, state: Any, *args: Any, **options: Any) -> Any: ...

    def register(self, kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the observable for another kind of state (a decorator)."""


class Labels(NamedTuple):
    """The name, unit, axes and other properties of an observable."""

    name: str
    long_name: str
    units: str = "1"
    dims: tuple[str, ...] = ()
    range: tuple[float, float] = (-math.inf, math.inf)
    rotation_invariant: bool = False
    in_loop: bool = False

    def text(self, function: Callable[..., Any], *args: Any, **options: Any) -> str:
        """Return the long name, with arguments filled in for their {names}."""
        if "{" not in self.long_name:
            return self.long_name
        bound = inspect.signature(function).bind_partial(*args, **options)
        bound.apply_defaults()
        return self.long_name.format(**bound.arguments)


def observable(
    long_name: str,
    *,
    units: str = "1",
    dims: tuple[str, ...] = (),
    range: tuple[float, float] = (-math.inf, math.inf),
    rotation_invariant: bool = False,
    in_loop: bool = True,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Observable]:
    """Turn a pure JAX function `f(state, ...)` into an observable (a decorator).

    - Inside `jit`, `vmap`, `grad` or `jvp` it returns an array; outside, a float (a NumPy array if it has axes).
    - For states stacked along leading axes, such as `Solution.states`, it returns one value for each, with these axes first.
    - For a `Trajectory` it returns an `xarray.DataArray` labeled by time. For an `Ensemble` the dims are member and time, with
      NaN after the end of a member; a list among the arguments must then have one entry per member (such as its model).
    - `f.register(kind)` adds another kind of state.
    - Sweeps and runs refer to it by its name, or as "module:function". Its parameters are those after the state; one that is
      called `model` is set to the model of the run.

    Args:
        long_name: what it measures, as an axis label. A parameter in braces, such as {threshold}, is filled in.
        units: its unit; "1" for a dimensionless number.
        dims: names of the axes of its value, if it is an array.
        range: its smallest and largest possible values.
        rotation_invariant: True if it is invariant under rotations of all tokens. A sweep may then compute it in the span of
            the tokens, which is faster.
        in_loop: False for one that a sweep computes after the run: it is not pure JAX, or slow in a batch.
        name: its name, if it is not that of the function.
    """

    def decorate(function: Callable[..., Any]) -> Observable:
        of_state = functools.singledispatch(function)
        known_as = function.__name__ if name is None else name
        labels = Labels(known_as, long_name, units, dims, range, rotation_invariant, in_loop)

        @functools.wraps(function)
        def measured(state: Any, *args: Any, **options: Any) -> Any:
            require_double()
            return _measure(state, of_state, args, options, labels)

        measured.register = of_state.register  # type: ignore[attr-defined]
        measured.labels = labels  # type: ignore[attr-defined]
        return cast(Observable, named("observable", known_as)(measured))

    return decorate


def labels_of(function: Callable[..., Any]) -> Labels:
    """Return the labels of an observable. Without the decorator, nothing is assumed about a function."""
    name = getattr(function, "__name__", type(function).__name__)
    return getattr(function, "labels", Labels(name, name.replace("_", " ")))


def observe(run: Trajectory | Ensemble, name: str | Callable[..., Any], **options: Any) -> "xarray.DataArray":
    """Return an observable along a run or an ensemble: by its name, as "module:function", or a function of a state."""
    try:
        function = find_function("observable", name) if isinstance(name, str) else name
    except ValueError as error:
        raise ValueError(f"observable: {error}") from None
    if not callable(function):
        raise ValueError(f"observable: must be a name or a function of a state, got {shown(function)}")
    taken = parameters(function)
    if unknown := [
        key for key in options if key not in taken and not any(p.kind is p.VAR_KEYWORD for p in taken.values())
    ]:
        known = list(taken)[1:]
        raise ValueError(f"{labels_of(function).name} has no parameter {unknown[0]}: {did_you_mean(unknown[0], known)}")
    if "model" in taken and "model" not in options:
        options["model"] = run.model
    return _measure(run, function, (), options, labels_of(function))


@functools.singledispatch
def _measure(state: Any, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    """Evaluate an observable on one state."""
    return plain(of_state(state, *args, **options))


@_measure.register(AbstractState)
def _(state: AbstractState, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    """Evaluate an observable on one state, or on each state of a stack."""
    of_one = lambda each: of_state(each, *args, **options)  # noqa: E731
    return plain(of_one(state) if not state.batch_shape else _of_each(state, of_one, labels.in_loop))


def _of_each(states: AbstractState, of_one: Callable, in_loop: bool) -> Any:
    """Evaluate a function on each state of a stack. It is NaN for states with a NaN, such as those after the end of a run."""
    if len(states.batch_shape) > 1:
        return jnp.stack([_of_each(row, of_one, in_loop) for row in _rows(states)])
    known = jnp.stack([~jnp.isnan(leaf).reshape(len(leaf), -1).any(1) for leaf in jax.tree.leaves(states)]).all(0)
    if in_loop:
        values = jax.vmap(of_one)(states)
    else:
        first = jax.tree.map(operator.itemgetter(jnp.argmax(known)), states)  # takes the place of states with a NaN
        rows = [
            jax.tree.map(functools.partial(jnp.where, good), row, first)
            for row, good in zip(_rows(states), known, strict=True)
        ]
        values = jnp.stack([jnp.asarray(of_one(row)) for row in rows])
    if is_concrete(values) and (overflows := np.flatnonzero(np.isinf(values.reshape(len(known), -1)).any(1))).size:
        of_one(_rows(states)[overflows[0]])  # outside vmap it may raise an error, which has the reason
    return jnp.where(known.reshape(-1, *(1,) * (values.ndim - 1)), values, jnp.nan)


def _rows(states: AbstractState) -> list[AbstractState]:
    return [jax.tree.map(operator.itemgetter(k), states) for k in range(states.batch_shape[0])]


@_measure.register(Trajectory)
def _(run: Trajectory, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    return _labeled(
        run,
        ("time",),
        [plain(of_state(state, *args, **options)) for state in run.states],
        _with_options(labels, of_state, args, options),
    )


@_measure.register(Ensemble)
def _(runs: Ensemble, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    rows = []
    for k, run in enumerate(runs):
        own = [_own(argument, k, len(runs)) for argument in args]
        member_options = {name: _own(option, k, len(runs)) for name, option in options.items()}
        shared = np.flatnonzero(np.isin(run.times, runs.times)).tolist()  # the end of a run may lie between save times
        found = np.array([plain(of_state(run.state(j), *own, **member_options)) for j in shared])
        row = np.full((len(runs.times), *found.shape[1:]), np.nan)
        row[np.searchsorted(runs.times, run.times[shared])] = found
        rows.append(row)
    return _labeled(runs, ("member", "time"), rows, _with_options(labels, of_state, args, options))


def _with_options(labels: Labels, of_state: Callable, args: tuple, options: Mapping[str, Any]) -> Labels:
    return labels._replace(long_name=labels.text(of_state, None, *args, **options))


def _own(value: Any, k: int, members: int) -> Any:
    """Return the value of an argument for member k."""
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != members:
        raise ValueError(f"a list argument must have one entry for each of the {members} members, got {len(value)}")
    return value[k]


def _labeled(run: Trajectory | Ensemble, over: tuple[str, ...], values: list, labels: Labels) -> "xarray.DataArray":
    import xarray

    coords = {name: coord for name, coord in run.dataset.coords.items() if set(coord.dims) <= set(over)}
    attrs = {"long_name": labels.long_name, "units": labels.units}
    return xarray.DataArray(np.array(values), coords, (*over, *labels.dims), labels.name, attrs)


def plain(value: Any) -> Any:
    """Return a traced value unchanged, and any other value as a float or a NumPy array."""
    if isinstance(value, jax.core.Tracer):
        return value
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
