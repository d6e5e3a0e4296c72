"""Many members through time: so many side by side, the others when there is room."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..flows import AbstractFlow, Segment, segments
from ..transformer import Transformer
from . import loop
from .continuous import BLOW_UP_RTOL, confirm_blow_up
from .members import flows_of, observe_each, pack, prepared, put, stack, take
from .progress import Progress
from .run import SolverError
from .steppers import Stepper
from .stop import AbstractStopRule, OnFlow

CHUNK = 16
SHRINK, FEWEST = 4, 16  # a batch is cut to a quarter when no more of its members run, but not below 16
REFILL = 8  # an eighth of the members must have ended before others take their places


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
    carry = _run(flows, y0, course)
    blown = np.flatnonzero(np.asarray(carry.status) == loop.UNDERFLOW)
    for k in blown:
        one = segments(smalls[k], small_models[k])[-1].flow
        confirm_blow_up(one, float(carry.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], carry.y))
    if len(blown) and course.rtol + course.atol > BLOW_UP_RTOL:
        again = _run(flows, y0, course._replace(rtol=BLOW_UP_RTOL, atol=min(course.atol, 1e-2 * BLOW_UP_RTOL)))
        carry = jax.tree.map(np.array, carry)
        put(carry, blown, take(again, blown))  # the others are as they would be by themselves
    return smalls, lifts, flows, carry


def _run(flows: tuple[Segment, ...], y: Any, course: AdaptiveCourse) -> loop.Carry:
    """All segments, all members, in chunks of trial steps."""
    t1, times, observe = course.t1, course.times, course.observe
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    start = loop.start_many if observe is None else loop.start_many_alone
    first = int(len(times) > 0 and times[0] == 0)
    saved = jax.tree.map(
        lambda leaf: _buffer(leaf, len(times), first), y if observe is None else observe_each(flows[0].flow, y, observe)
    )
    done: loop.Carry | None = None
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
            if done is None:
                t0, saved_count = number(0.0), jnp.full(len(jax.tree.leaves(y)[0]), first)
                carry = start(segment.flow, course.stepper, settings, t0, y, saved, saved_count)
            else:
                t0 = number(flows[k - 1].until)
                fresh = start(segment.flow, course.stepper, settings, t0, done.y, done.saved, done.saved_count)
                fresh = eqx.tree_at(lambda c: (c.steps, c.rejected), fresh, (done.steps, done.rejected))
                going = done.status == loop.FINISHED
                carry = _choose(going, fresh, done)
            carry = _advance(segment.flow, settings, carry, course, bar)
            done = carry
            if end >= t1:
                break
    assert done is not None
    return done


def _advance(
    flow: AbstractFlow, settings: loop.Settings, carry: loop.Carry, course: AdaptiveCourse, bar: Progress
) -> loop.Carry:
    """All members to the end of a segment, `width` of them at a time.

    A member that has ended makes room for one that waits. When none waits and most have ended, the others go on in a
    smaller batch.
    """
    observe, max_steps = course.observe, course.max_steps
    stop = None if course.rule is None else OnFlow(course.rule)
    advance = loop.advance_many if observe is None else loop.advance_many_alone
    whole, whole_flow = jax.tree.map(np.array, carry), flow
    waiting = np.flatnonzero(whole.status == loop.RUNNING)
    size = min(course.width or len(whole.t), len(whole.t))
    active, waiting = waiting[:size], waiting[size:]
    active = np.concatenate([active, np.setdiff1d(np.arange(len(whole.t)), active)[: size - len(active)]])
    if not np.array_equal(active, np.arange(len(whole.t))):
        carry, flow = take(whole, active), take(whole_flow, active)
    while len(going := np.flatnonzero(np.asarray(carry.status) == loop.RUNNING)) or len(waiting):
        if int((carry.steps + carry.rejected).max()) >= max_steps:
            raise SolverError(f"max_steps = {max_steps} steps were not enough for a member: allow more of them")
        ended = np.setdiff1d(np.arange(len(active)), going)
        size = len(active) // SHRINK
        if len(waiting) and len(ended) >= len(active) // REFILL:
            put(whole, active, carry)
            some = ended[: len(waiting)]
            active[some], waiting = waiting[: len(some)], waiting[len(some) :]
            carry, flow = take(whole, active), take(whole_flow, active)
        elif not len(waiting) and len(going) <= size and size >= FEWEST:
            put(whole, active, carry)
            active = active[np.sort(np.concatenate([going, ended[: size - len(going)]]))]
            carry, flow = take(whole, active), take(whole_flow, active)
        before, begun = int((carry.steps + carry.rejected).sum()), time.monotonic()
        later = "now" if observe is None else "later"
        carry = advance(flow, course.stepper, settings, stop, carry, jnp.asarray(CHUNK), observe, later)
        taken = int((carry.steps + carry.rejected).sum()) - before
        bar.update(float(carry.t.mean()), taken / max(time.monotonic() - begun, 1e-9))
    put(whole, active, carry)
    hit = np.flatnonzero(whole.status == loop.HIT)
    size = min(course.width or len(whole.t), len(whole.t))
    for first in range(0, len(hit), size):
        some = hit[first : first + size]
        padded = np.concatenate([some, np.full(size - len(some), some[-1])])
        part = take(whole, padded), take(whole_flow, padded)
        part = advance(part[1], course.stepper, settings, stop, part[0], jnp.asarray(0), observe, "only")
        put(whole, some, jax.tree.map(lambda leaf, count=len(some): leaf[:count], part))
    return jax.tree.map(jnp.asarray, whole)


def _halvings(rtol: float) -> int:
    """Enough that the moment of a stop is known to a small part of the tolerance."""
    return min(50, 12 + math.ceil(-math.log2(max(rtol, 1e-12))))


def _buffer(first: Any, times: int, count: int) -> jax.Array:
    """Room for what is saved of all members, the first time filled in if `count` is 1."""
    buffer = np.zeros((len(first), times, *first.shape[1:]), first.dtype)
    buffer[:, :count] = np.asarray(first)[:, None]
    return jnp.asarray(buffer)


def _choose(condition, yes, no):
    """Member by member."""
    pick = lambda a, b: jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)  # noqa: E731
    return jax.tree.map(pick, yes, no)
