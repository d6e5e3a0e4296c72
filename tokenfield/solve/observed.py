"""Many runs of which only chosen numbers are kept, computed inside the time loop."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..transformer import Transformer
from . import loop
from .continuous import ATOL, RTOL
from .members import log_time_unit, observe_each, unpack
from .steppers import stepper
from .stop import AbstractStopRule
from .turns import AdaptiveCourse, solve_many
from .unrolled import unrolled


class Observed(NamedTuple):
    """What was seen of m members at T times.

    Args:
        saved: the tree that `observe` returns, with leading axes (m, T); only the first `counts` times are filled.
        counts: (m,) times reached.
        last: the same at the end of each run, with leading axis m.
        states: the state at the end of each run, in the coordinates of the solver (a rotation of the start's).
        end_time: (m,) when each run ended.
        events: for each member the kind of event that ended it, None for a run that reached t1.
        log_time_unit: as for `Trajectory`.
    """

    saved: Any
    counts: np.ndarray
    last: Any
    states: Any
    end_time: np.ndarray
    events: list[str | None]
    log_time_unit: float


def observe_many(
    models: Sequence[Transformer],
    states: Sequence[Any],
    t1: float,
    observe: Callable[[Any], Any],
    *,
    save_at: np.ndarray,
    rtol: float = RTOL,
    atol: float = ATOL,
    stop_when: AbstractStopRule | None = None,
    method: str = "tsit5",
    max_steps: int = 1_000_000,
    width: int | None = None,
) -> Observed:
    """Runs of many states of one kind and size, as `simulate_many`, keeping `observe(state)` at the times `save_at`.

    At most `width` of them run at a time; one that has ended makes room for another.

    `observe` must not change under rotations of the state, and should be one and the same object from call to call,
    or an Equinox module, so that it is compiled once.
    """
    rule = None if stop_when is None else stop_when.resolve(models[0], states[0])
    times = np.asarray(save_at, float)
    course = AdaptiveCourse(t1, times, rtol, atol, unrolled(stepper(method)), rule, max_steps, False, observe, width)
    _, _, flows, carry = solve_many(models, states, course)
    kinds = {loop.STOPPED: rule.kind if rule else "", loop.UNDERFLOW: "blow_up"}
    flow = flows[-1].flow
    arrays = lambda tree: jax.tree.map(np.asarray, tree)  # noqa: E731
    return Observed(
        arrays(carry.saved),
        np.asarray(carry.saved_count),
        arrays(observe_each(flow, carry.y, observe)),
        arrays(unpack(flow, carry.y)),
        np.asarray(carry.t),
        [kinds.get(status) for status in np.asarray(carry.status).tolist()],
        log_time_unit(flow),
    )
