"""Run an ensemble and save only chosen observables, computed inside the time loop."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..flows import is_random
from ..solver.methods import runge_kutta, with_unrolled_stages
from ..stop_rule import AbstractStopRule
from ..transformer import Transformer
from .batch import solve_many
from .choice import chosen_method, reductions
from .continuous import ATOL, RTOL
from .ending import check_members, event_kinds
from .members import log_time_unit, observe_each, shared_rule, unpack
from .smooth import Options


class Observed(NamedTuple):
    """The observables of m members at T times.

    Args:
        saved: the tree that `observe` returns, with leading axes (m, T); only the first `counts` times are filled.
        counts: (m,) number of save times that each member reached.
        last: the same tree at the end of each run, with leading axis m.
        states: the states at the end of each run, in the coordinates of the solver (a rotation of those of the initial state).
        end_time: (m,) time at which each run ended.
        events: for each member, the kind of event that ended it; None for a run that reached t1.
        log_time_unit: as for `Trajectory`.
        method: the method of all runs.
        reductions: for each member, the names of its reductions.
    """

    saved: Any
    counts: np.ndarray
    last: Any
    states: Any
    end_time: np.ndarray
    events: list[str | None]
    log_time_unit: float
    method: str
    reductions: list[tuple[str, ...]]


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
    method: str | None = None,
    max_steps: int = 1_000_000,
    width: int | None = None,
    rotation_invariant: bool = True,
) -> Observed:
    """Run an ensemble like `simulate_many`, but save only `observe(state)` at the times `save_at`.

    At most `width` members run at a time; when one ends, the next one starts.

    `observe` should be the same object in every call, or an Equinox module, so that it is compiled only once. If it is not
    invariant under rotations of the state, set `rotation_invariant=False`: the run then uses the coordinates of the state.
    """
    if any(is_random(state, model) for state, model in zip(states, models, strict=True)):
        raise ValueError("model: observe_many takes no seeds: use simulate_many for a model with noise")
    rule = shared_rule(stop_when, models, states)
    times = np.asarray(save_at, float)
    pairs = zip(states, models, strict=True)
    methods = {chosen_method(method, state, model, t1, stop_when is not None) for state, model in pairs}
    reduced = reductions(states, models, rtol + atol, rule, rotation_invariant)
    if "coarsen" in methods or any("series" in each.names for each in reduced):
        raise ValueError("states: members that are coarsened or use a series do not run in a batch: use simulate")
    name = methods.pop()
    options = Options(t1, times, rtol, atol, with_unrolled_stages(runge_kutta(name)), rule, max_steps, observe)
    ends = solve_many(reduced, options, width)
    kinds = event_kinds(rule)
    arrays = lambda tree: jax.tree.map(np.asarray, tree)  # noqa: E731
    final = arrays(unpack(ends.flow, ends.y))
    events = [kinds.get(status) for status in ends.status.tolist()]
    check_members(models, final, ends.t, t1, events)
    seen = arrays(ends.saved), ends.counts, arrays(observe_each(ends.flow, ends.y, observe))
    names = [each.names for each in reduced]
    return Observed(*seen, final, ends.t, events, log_time_unit(ends.flow), name, names)
