"""Integrate an ensemble through all segments, at most `width` members at a time."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._xla.arrays import from_numpy
from ..flows import Reduction, Segment, segments
from ..solver.base import FINISHED, HIT, RUNNING, UNDERFLOW, AbstractMethod, Settings
from ..solver.stop import OnFlow
from ..stop_rule import AbstractStopRule
from ..transformer import Transformer
from . import ensemble_loop as batch
from .continuous import BLOW_UP_RTOL
from .ending import how_ended
from .errors import SolverError
from .members import flows_of, observe_each, pack, put, reductions, stack, take
from .progress import Progress
from .run import Outcome

TURNS, TURNS_ALONE = 16, 128  # iterations between progress updates
SHRINK, FEWEST = 4, 16  # shrink a batch to a quarter when at most that many members still run, but not below 16


class Course(NamedTuple):
    """The settings of an ensemble, apart from its flows and initial states.

    Args:
        t1, times, rtol, atol, max_steps, progress: as for `simulate_many`.
        method: the method of all members, or one whose arrays have a leading member axis (random keys).
        rule: the stop rule.
        observe: function of the state whose value is saved at the times; None to save the state itself.
        width: maximum number of members that run at a time; None for all.
    """

    t1: float
    times: np.ndarray
    rtol: float
    atol: float
    method: AbstractMethod
    rule: AbstractStopRule | None
    max_steps: int
    progress: bool | None
    observe: Callable | None = None
    width: int | None = None


class Ends(NamedTuple):
    """The members at the end of their runs: flows, unknowns, times, statuses, steps taken and rejected, and saved values."""

    flow: Any
    y: Any
    t: np.ndarray
    status: np.ndarray
    steps: np.ndarray
    rejected: np.ndarray
    saved: Any
    counts: np.ndarray


def solve_many(models: Sequence[Transformer], states: Sequence[Any], course: Course) -> tuple[list[Reduction], Ends]:
    """Run an ensemble; return the reductions of all members, and the members at the end of their runs."""
    reduced = reductions(states, models)
    smalls, small_models = [each.state for each in reduced], [each.model for each in reduced]
    flows = flows_of(smalls, small_models)
    y0 = pack(flows[0].flow, stack(smalls))
    rows, saved = run_members(flows, y0, course)
    blown = np.flatnonzero(np.asarray(rows.carry.status) == UNDERFLOW)
    status = _how_ended(smalls, small_models, rows, course.method)
    if len(blown) and course.rtol + course.atol > BLOW_UP_RTOL:
        tight = course._replace(rtol=BLOW_UP_RTOL, atol=min(course.atol, 1e-2 * BLOW_UP_RTOL))
        again = run_members(flows, y0, tight)
        rows, saved = jax.tree.map(np.array, (rows, saved))
        put((rows, saved), blown, take(again, blown))  # the other members keep the numbers that they would have alone
        status = _how_ended(smalls, small_models, rows, course.method)
    return reduced, ends_of(flows, rows, saved, status)


def ends_of(flows: tuple[Segment, ...], rows: batch.Member, saved: Any, status: np.ndarray) -> Ends:
    """Return the members at the end of their runs, with NumPy arrays for what the driver reads."""
    c = rows.carry
    t, steps, rejected, counts = map(np.asarray, (c.t, c.steps, c.rejected, rows.count))
    return Ends(flows[-1].flow, c.y, t, status, steps, rejected, saved, counts)


def _how_ended(
    states: Sequence[Any], models: Sequence[Transformer], rows: batch.Member, method: AbstractMethod
) -> np.ndarray:
    """Return the status of every member; for a failed step, the status says why it failed."""
    status = np.array(rows.carry.status)
    for k in np.flatnonzero(status == UNDERFLOW).tolist():
        t, y = float(rows.carry.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], rows.carry.y)
        flow = next(part.flow for part in segments(states[k], models[k]) if t < part.until)
        status[k], _ = how_ended(Outcome(np.zeros(0), None, flow, t, y, UNDERFLOW, 0, 0), method)
    return status


def run_members(flows: tuple[Segment, ...], y: Any, course: Course) -> tuple[batch.Member, Any]:
    """Run all members through all segments; return the members at the end, and what they saved."""
    t1, times, observe = course.t1, course.times, course.observe
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    start = batch.start if observe is None else batch.start_alone
    first = int(len(times) > 0 and times[0] == 0)
    members = len(jax.tree.leaves(y)[0])
    seen = y if observe is None else observe_each(flows[0].flow, y, observe)
    saved = jax.tree.map(lambda leaf: _buffer(leaf, len(times), first), seen)
    stop = None if course.rule is None else OnFlow(course.rule)
    rows: batch.Member | None = None
    begin = 0.0
    with Progress(course.progress, "simulating", t1) as bar:
        for k, segment in enumerate(flows):
            end = min(float(segment.until), t1)
            jumps = k + 1 < len(flows) and end == segment.until
            settings = Settings(
                t1=number(end),
                t_last=number(np.nextafter(end, -np.inf) if jumps else end),
                save_at=number(times),
                rtol=number(course.rtol),
                atol=number(course.atol),
            )
            problem = batch.Problem(segment.flow, course.method, settings, stop, observe)
            if rows is None:
                rows = start(problem, number(0.0), y, jnp.full(members, first, int))
            else:
                fresh = start(problem, number(begin), rows.carry.y, rows.count)
                before = rows.carry.steps, rows.carry.rejected
                fresh = eqx.tree_at(lambda m: (m.carry.steps, m.carry.rejected), fresh, before)
                rows = batch.choose_each(rows.carry.status == FINISHED, fresh, rows)
            rows, saved = _advance(problem, rows, saved, course, bar)
            begin = end
            if end >= t1:
                break
    assert rows is not None
    return rows, saved


def _advance(
    problem: batch.Problem, rows: batch.Member, saved: Any, course: Course, bar: Progress
) -> tuple[batch.Member, Any]:
    """Run all members to the end of a segment, `width` at a time.

    When a member ends, the next one in the queue takes its slot. When the queue is empty and most members have ended, the
    others continue in a smaller batch.
    """
    alone = course.observe is not None
    advance, finish = (batch.advance_alone, batch.finish_alone) if alone else (batch.advance, batch.finish)
    count = len(rows.count)
    size = min(course.width or count, count)
    queue = np.flatnonzero(np.asarray(rows.carry.status) == RUNNING)
    now = batch.seat(problem, rows, saved, *_seating(queue, size, count))
    while len(going := np.flatnonzero(np.asarray(now.current.carry.status) == RUNNING)):
        if int((now.current.carry.steps + now.current.carry.rejected).max()) >= course.max_steps:
            raise SolverError(f"max_steps = {course.max_steps} steps were not enough for a member: increase max_steps")
        if int(now.seated) == len(queue) and len(going) <= size // SHRINK and size // SHRINK >= FEWEST:
            size, queue = size // SHRINK, np.asarray(now.member)[going]
            now = batch.seat(problem, batch.all_rows(now), now.saved, *_seating(queue, size, count))
        before, begun = int(now.taken), time.monotonic()
        now = advance(problem, now, jnp.asarray(TURNS_ALONE if alone else TURNS))
        rate = (int(now.taken) - before) / max(time.monotonic() - begun, 1e-9)
        bar.update(float(now.current.carry.t.mean()), rate)
    rows, saved = now.rows, now.saved
    hit = np.flatnonzero(np.asarray(rows.carry.status) == HIT)
    if len(hit):
        padded = from_numpy(np.pad(hit, (0, count - len(hit)), constant_values=count))
        rows, saved = finish(problem, rows, saved, padded, min(course.width or count, count))
    return rows, saved


def _seating(queue: np.ndarray, size: int, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the queue, padded to the number of members; how many of them get a slot; and the member in each slot.

    If there are more slots than members to run, the remaining slots get members that do not run.
    """
    first = queue[:size]
    others = np.setdiff1d(np.arange(count), first)[: size - len(first)]
    padded = np.concatenate([queue, np.full(count - len(queue), -1)])
    return from_numpy(padded), jnp.asarray(len(first)), from_numpy(np.concatenate([first, others]))


def _buffer(first: Any, times: int, count: int) -> jax.Array:
    """Return a buffer for the saved values of all members; the first time is filled in if `count` is 1."""
    buffer = np.zeros((len(first), times, *first.shape[1:]), first.dtype)
    buffer[:, :count] = np.asarray(first)[:, None]
    return from_numpy(buffer)
