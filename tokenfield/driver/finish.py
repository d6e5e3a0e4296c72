"""From the unknowns at the end of a run to its labeled data, with the checks at the end of every run."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._xla.arrays import from_numpy
from .._xla.compilation import compiled_once
from ..flows import AbstractFlow, Reduction
from ..results.finished import Finished, configuration, joined, table_of
from ..results.trajectory import Trajectory
from ..solver.solution import row
from ..transformer import Transformer
from .ending import check_end, check_tokens
from .smooth import Options, Outcome


def trajectory_of(
    model: Any, small: Reduction, outcome: Outcome, options: Options, events: list[dict[str, Any]], **more: Any
) -> Trajectory:
    """Return one run as a `Trajectory`, in the coordinates of the given state; `more` are settings that are attributes too.

    Args:
        model: the model, or one for each layer.
    """
    flow, times = outcome.flow, outcome.times
    # Whole buffers, whose shape does not depend on the run, are converted and then cut in NumPy: this avoids recompilation.
    length = jax.tree.leaves(outcome.saved)[0].shape[0]
    rows, unit = _rows(flow, from_numpy(np.pad(times, (0, length - len(times)))), outcome.saved)
    ended = len(times) and times[-1] == outcome.t
    last = None if ended else _last(flow, from_numpy(np.asarray(outcome.t, float)), outcome.y)
    counts = outcome.steps, outcome.rejected
    run = finished(model, small, options, times, rows, outcome.t, last, events, float(unit), *counts)
    return run.trajectory(model, run_config(options, small.names), **more)


def run_config(options: Options, reductions: Iterable[str]) -> dict[str, Any]:
    """Return how a run is computed, as plain data."""
    method = options.method
    settings = method.recorded(options.t1, options.rtol, options.atol, options.max_steps)  # type: ignore[arg-type]
    return configuration(method.name, settings | {"stop_when": options.stop}, reductions)


def finished(
    model: Any,
    small: Reduction,
    options: Options,
    times: np.ndarray,
    rows: Any,
    t: float,
    last: Any,
    events: list[dict[str, Any]],
    log_time_unit: float,
    steps: Any,
    rejected: Any,
) -> Finished:
    """Return one run, or one member of an ensemble, in the coordinates of the given state.

    Args:
        times, rows: the save times that it reached, and a buffer that begins with the rows there (see `row`).
        t, last: the time at its end, and the row there, unless this is the last of the save times.
    """
    times, (states, scaled) = joined(times, rows, t, last)
    lifted = small.lift(states)
    if scaled is not None:
        scaled = small.lift(eqx.tree_at(lambda s: s.x, states, scaled[0])).x, scaled[1]
    check_end(t, options.t1, events)
    if not options.method.discrete:
        check_tokens(model, lifted)
    elif not events:  # the first layer reads tokens of any length
        models = [model] if isinstance(model, Transformer) else model
        check_tokens(models[-1], jax.tree.map(lambda leaf: leaf[-1:], lifted))
    return Finished(table_of(times, lifted, scaled), events, log_time_unit, int(steps), int(rejected))


@compiled_once
def _rows(flow: AbstractFlow, times: Any, saved: Any) -> Any:
    """Return the rows of a run, and the logarithm of its unit of time: no program of its own is compiled for that."""
    return jax.vmap(lambda t, y: row(flow, t, y))(times, saved), flow.log_time_unit


_last = eqx.filter_jit(row)
