"""Observables: pure functions of a state, evaluated on one state, along a run, or along an ensemble."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, overload

import jax
import numpy as np

from .._jax import require_double
from ..results import Ensemble, Trajectory

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
    """The labels of a series."""

    name: str
    long_name: str
    units: str
    dims: tuple[str, ...]


def observable(
    long_name: str, *, units: str = "1", dims: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Observable]:
    """Turn a pure JAX function `f(state, ...)` into an observable (a decorator).

    - Inside `jit`, `vmap`, `grad` or `jvp` it returns an array; outside, a float (a NumPy array if it has axes).
    - For a `Trajectory` it returns an `xarray.DataArray` labeled by time. For an `Ensemble` the dims are member and time, with
      NaN after the end of a member; a list among the arguments must then have one entry per member (such as its model).
    - `f.register(kind)` adds another kind of state.

    Args:
        long_name: what it measures, as a label for axes of figures.
        units: its unit; "1" for a dimensionless number.
        dims: names of the axes of its value, if it is an array.
    """

    def decorate(function: Callable[..., Any]) -> Observable:
        of_state = functools.singledispatch(function)
        labels = Labels(function.__name__, long_name, units, dims)

        @functools.wraps(function)
        def measured(state: Any, *args: Any, **options: Any) -> Any:
            require_double()
            return _measure(state, of_state, args, options, labels)

        measured.register = of_state.register  # type: ignore[attr-defined]
        return cast(Observable, measured)

    return decorate


@functools.singledispatch
def _measure(state: Any, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    """Evaluate an observable on one state."""
    return plain(of_state(state, *args, **options))


@_measure.register(Trajectory)
def _(run: Trajectory, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    return _labelled(run, ("time",), [plain(of_state(state, *args, **options)) for state in run.states], labels)


@_measure.register(Ensemble)
def _(runs: Ensemble, of_state: Callable, args: tuple, options: Mapping[str, Any], labels: Labels) -> Any:
    rows = []
    for k, run in enumerate(runs):
        own = [_own(argument, k, len(runs)) for argument in args]
        kept = {name: _own(option, k, len(runs)) for name, option in options.items()}
        shared = np.flatnonzero(np.isin(run.times, runs.times)).tolist()  # the end of a run may lie between save times
        found = np.array([plain(of_state(run.state(j), *own, **kept)) for j in shared])
        row = np.full((len(runs.times), *found.shape[1:]), np.nan)
        row[np.searchsorted(runs.times, run.times[shared])] = found
        rows.append(row)
    return _labelled(runs, ("member", "time"), rows, labels)


def _own(value: Any, k: int, members: int) -> Any:
    """Return the value of an argument for member k."""
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != members:
        raise ValueError(f"a list argument must have one entry for each of the {members} members, got {len(value)}")
    return value[k]


def _labelled(run: Trajectory | Ensemble, over: tuple[str, ...], values: list, labels: Labels) -> "xarray.DataArray":
    import xarray

    coords = {name: coord for name, coord in run.dataset.coords.items() if set(coord.dims) <= set(over)}
    attrs = {"long_name": labels.long_name, "units": labels.units}
    return xarray.DataArray(np.array(values), coords, (*over, *labels.dims), labels.name, attrs)


def plain(value: Any) -> Any:
    """Return a traced value unchanged, and any other value as a float or a NumPy array."""
    if isinstance(value, jax.core.Tracer):
        return value
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
