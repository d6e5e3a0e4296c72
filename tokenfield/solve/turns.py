"""Many members through time: so many side by side, the others when there is room."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._check import handed_over
from ..flows import Segment, segments
from ..transformer import Transformer
from . import loop, slots
from .continuous import BLOW_UP_RTOL, confirm_blow_up
from .members import flows_of, observe_each, pack, prepared, put, stack, take
from .progress import Progress
from .run import SolverError
from .steppers import Stepper
from .stop import AbstractStopRule, OnFlow

TURNS, TURNS_ALONE = 16, 128  # before a look at the progress
SHRINK, FEWEST = 4, 16  # a batch is cut to a quarter when no more of its members run, but not below 16


class AdaptiveCourse(NamedTuple):
    """How many runs are to be followed, whatever they are runs of.

    Args:
        t1, times, rtol, atol, max_steps, progress: as for `simulate_many`.
        stepper: the method.
        rule: what ends a run early.
        observe: what is kept of a state at the times; None for the state itself.
        width: how many members run at a time; None for all.
    """

    t1: float
    times: np.ndarray
    rtol: float
    atol: float
    stepper: Stepper
    rule: AbstractStopRule | None
    max_steps: int
    progress: bool | None
    observe: Callable | None = None
    width: int | None = None


def solve_many(
    models: Sequence[Transformer], states: Sequence[Any], course: AdaptiveCourse
) -> tuple[Sequence[Any], Sequence[Callable], tuple[Segment, ...], loop.Carry]:
    """The reduced starts, the ways back from them, the flows, and the members at their ends."""
    smalls, small_models, lifts = zip(*prepared(states, models), strict=True)
    flows = flows_of(smalls, small_models)
    y0 = pack(flows[0].flow, stack(smalls))
    carry, saved = _run(flows, y0, course)
    blown = np.flatnonzero(np.asarray(carry.status) == loop.UNDERFLOW)
    for k in blown:
        one = segments(smalls[k], small_models[k])[-1].flow
        confirm_blow_up(one, float(carry.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], carry.y))
    if len(blown) and course.rtol + course.atol > BLOW_UP_RTOL:
        again = _run(flows, y0, course._replace(rtol=BLOW_UP_RTOL, atol=min(course.atol, 1e-2 * BLOW_UP_RTOL)))
        carry, saved = jax.tree.map(np.array, (carry, saved))
        put((carry, saved), blown, take(again, blown))  # the others are as they would be by themselves
    return smalls, lifts, flows, eqx.tree_at(lambda c: c.saved, carry, saved, is_leaf=lambda leaf: leaf is None)


def _run(flows: tuple[Segment, ...], y: Any, course: AdaptiveCourse) -> tuple[loop.Carry, Any]:
    """All members through all segments: where they end, and what they have saved."""
    t1, times, observe = course.t1, course.times, course.observe
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    start = slots.start if observe is None else slots.start_alone
    first = int(len(times) > 0 and times[0] == 0)
    saved = jax.tree.map(
        lambda leaf: _buffer(leaf, len(times), first), y if observe is None else observe_each(flows[0].flow, y, observe)
    )
    rows: loop.Carry | None = None
    stop = None if course.rule is None else OnFlow(course.rule)
    with Progress(course.progress, "simulating", t1) as bar:
        for k, segment in enumerate(flows):
            end = min(segment.until, t1)
            jumps = k + 1 < len(flows) and end == segment.until
            settings = loop.Settings(
                t1=number(end),
                t_last=number(np.nextafter(end, -np.inf) if jumps else end),
                save_at=number(times),
                rtol=number(course.rtol),
                atol=number(course.atol),
                dt=None,
                halvings=50 if observe is None else _halvings(course.rtol),
            )
            if rows is None:
                counts = jnp.full(len(jax.tree.leaves(y)[0]), first, int)
                rows = start(segment.flow, course.stepper, settings, number(0.0), y, None, counts)
            else:
                t0 = number(flows[k - 1].until)
                fresh = start(segment.flow, course.stepper, settings, t0, rows.y, None, rows.saved_count)
                fresh = eqx.tree_at(lambda c: (c.steps, c.rejected), fresh, (rows.steps, rows.rejected))
                rows = slots.choose_each(rows.status == loop.FINISHED, fresh, rows)
            problem = slots.Problem(segment.flow, course.stepper, settings, stop, observe)
            rows, saved = _advance(problem, rows, saved, course, bar)
            if end >= t1:
                break
    assert rows is not None
    return rows, saved


def _advance(
    problem: slots.Problem, rows: loop.Carry, saved: Any, course: AdaptiveCourse, bar: Progress
) -> tuple[loop.Carry, Any]:
    """All members to the end of a segment, `width` of them at a time.

    A member that has ended makes room for one that waits. When none waits and most have ended, the others go on in a
    smaller batch.
    """
    alone = course.observe is not None
    advance, finish = (slots.advance_alone, slots.finish_alone) if alone else (slots.advance, slots.finish)
    count = len(rows.t)
    size = min(course.width or count, count)
    queue = np.flatnonzero(np.asarray(rows.status) == loop.RUNNING)
    now = slots.seat(problem, rows, saved, *_seating(queue, size, count))
    while len(going := np.flatnonzero(np.asarray(now.carry.status) == loop.RUNNING)):
        if int((now.carry.steps + now.carry.rejected).max()) >= course.max_steps:
            raise SolverError(f"max_steps = {course.max_steps} steps were not enough for a member: allow more of them")
        if int(now.seated) == len(queue) and len(going) <= size // SHRINK and size // SHRINK >= FEWEST:
            size, queue = size // SHRINK, np.asarray(now.member)[going]
            now = slots.seat(problem, slots.stand(now), now.saved, *_seating(queue, size, count))
        before, begun = int(now.taken), time.monotonic()
        now = advance(problem, now, jnp.asarray(TURNS_ALONE if alone else TURNS))
        rate = (int(now.taken) - before) / max(time.monotonic() - begun, 1e-9)
        bar.update(float(now.carry.t.mean()), rate)
    rows, saved = now.rows, now.saved
    hit = np.flatnonzero(np.asarray(rows.status) == loop.HIT)
    if len(hit):
        padded = handed_over(np.pad(hit, (0, count - len(hit)), constant_values=count))
        rows, saved = finish(problem, rows, saved, padded, min(course.width or count, count))
    return rows, saved


def _seating(queue: np.ndarray, size: int, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Who has to run, padded to all members; how many of them get a slot; and who is in each: where there are too few, some
    that do not run."""
    first = queue[:size]
    others = np.setdiff1d(np.arange(count), first)[: size - len(first)]
    padded = np.concatenate([queue, np.full(count - len(queue), -1)])
    return handed_over(padded), jnp.asarray(len(first)), handed_over(np.concatenate([first, others]))


def _halvings(rtol: float) -> int:
    """Enough that the moment of a stop is known to a small part of the tolerance."""
    return min(50, 3 + math.ceil(-1.5 * math.log2(max(rtol, 1e-12))))


def _buffer(first: Any, times: int, count: int) -> jax.Array:
    """Room for what is saved of all members, the first time filled in if `count` is 1."""
    buffer = np.zeros((len(first), times, *first.shape[1:]), first.dtype)
    buffer[:, :count] = np.asarray(first)[:, None]
    return handed_over(buffer)
