"""Integrate an ensemble through all segments, at most `width` members at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._xla.arrays import from_numpy
from ..flows import Reduction, Segment, segments
from ..solver.base import BLOW_UP, FAILED, FINISHED, HIT, RUNNING, VANISHED, AbstractMethod
from ..transformer import Transformer
from .continuous import BLOW_UP_RTOL, tightened
from .ending import why_failed
from .ensemble_loop import ONE_THREAD_PROGRAMS, PROGRAMS, Member, Slots, all_rows, choose_each, fill_slots
from .members import flows_of, observe_each, pack, put, stack, take
from .run import AbstractLoop, Reached, run
from .session import Session
from .smooth import Options, Plan, Smooth

ITERATIONS, ONE_THREAD_ITERATIONS = 16, 128  # iterations between progress updates
SHRINK_FACTOR, MIN_WIDTH = (
    4,
    16,
)  # if at most a quarter of the slots still run, shrink the batch to a quarter (at least 16)


class EnsembleOutcome(NamedTuple):
    """The members at the end of their runs: flows, unknowns, times, statuses, steps taken and rejected, and saved values."""

    flow: Any
    y: Any
    t: np.ndarray
    status: np.ndarray
    steps: np.ndarray
    rejected: np.ndarray
    saved: Any
    counts: np.ndarray


def solve_many(
    members: Sequence[Reduction],
    options: Options,
    width: int | None = None,
    session: Session = Session(),
) -> EnsembleOutcome:
    """Run an ensemble; return the members at the end of their runs.

    Args:
        members: the reduced problems, of equal shapes.
        width: maximum number of members that run at a time; None for all.
    """
    smalls, small_models = [each.state for each in members], [each.model for each in members]
    flows = flows_of(smalls, small_models)
    plan = Plan(options, flows, pack(flows[0].flow, stack(smalls)))
    rows, saved = run_members(plan, width, session)
    status = _how_ended(smalls, small_models, rows, options.method)
    blown = np.flatnonzero(np.isin(status, (BLOW_UP, VANISHED)))
    if len(blown) and options.rtol + options.atol > BLOW_UP_RTOL:
        again = run_members(plan._replace(options=tightened(options)), width, Session(session.progress))
        rows, saved = jax.tree.map(np.array, (rows, saved))
        put((rows, saved), blown, take(again, blown))  # the numbers of the other members do not depend on these
        status = _how_ended(smalls, small_models, rows, options.method)
    return outcome_of(flows, rows, saved, status)


def run_members(plan: Plan, width: int | None, session: Session) -> tuple[Member, Any]:
    """Run all members through all segments; return the members at the end, and their saved values."""
    members = len(jax.tree.leaves(plan.y0)[0])
    loop, bar = Batch(members, width, plan.options.observe), session.bar("simulating", plan.options.t1)
    slots = run(Smooth(plan), loop, bar, session.checkpointer(lambda: plan.identity(members)))
    return slots.rows, slots.saved


class Batch(AbstractLoop):
    """An ensemble, at most `width` members at a time.

    When a member ends, the next one in the queue takes its slot. When the queue is empty and most members have ended, the
    others continue in a smaller batch.

    Args:
        members: their number.
        width: the number of slots; None for one per member.
        observe: the function of the state whose values are saved, if any. Its programs use one thread, so that the bits of
            its values do not depend on the number of threads.
    """

    def __init__(self, members: int, width: int | None, observe: Callable | None):
        self.members, self.observe = members, observe
        self.width = min(width or members, members)
        single = observe is not None
        self.programs = ONE_THREAD_PROGRAMS if single else PROGRAMS
        self.iterations = ONE_THREAD_ITERATIONS if single else ITERATIONS

    def begin(self, stage, before):
        problem, t = stage.problem, jnp.asarray(stage.t, float)
        if before is None:
            times = problem.settings.save_at
            first, zero = int(len(times) > 0 and float(times[0]) == 0), jnp.zeros(self.members, int)
            rows = self.programs.start(problem, t, stage.y, zero, zero, jnp.full(self.members, first, int))
            seen = stage.y if self.observe is None else observe_each(problem.flow, stage.y, self.observe)
            return self._fill_slots(rows, jax.tree.map(lambda leaf: _buffer(leaf, len(times), first), seen), self.width)
        old = before.rows
        fresh = self.programs.start(problem, t, old.carry.y, old.carry.steps, old.carry.rejected, old.count)
        return self._fill_slots(choose_each(old.carry.status == FINISHED, fresh, old), before.saved, self.width)

    def advance(self, problem, record, budget):
        size, going = len(record.member), np.asarray(record.current.carry.status) == RUNNING
        queued = int((np.asarray(record.queue) >= 0).sum())
        if (
            int(record.started) == queued
            and going.sum() <= size // SHRINK_FACTOR
            and size // SHRINK_FACTOR >= MIN_WIDTH
        ):
            total_steps = record.total_steps
            record = self._fill_slots(all_rows(record), record.saved, size // SHRINK_FACTOR)
            record = eqx.tree_at(lambda slots: slots.total_steps, record, total_steps)
        record = self.programs.advance(problem, record, jnp.asarray(budget))
        hit = np.flatnonzero(np.asarray(record.rows.carry.status) == HIT)
        if len(hit) and not self.reached(record).running:
            padded = from_numpy(np.pad(hit, (0, self.members - len(hit)), constant_values=self.members))
            ends = self.programs.finish(problem, record.rows, record.saved, padded, self.width)
            record = eqx.tree_at(lambda slots: (slots.rows, slots.saved), record, ends)
        return record

    def reached(self, record):
        c = record.current.carry
        running, steps = np.asarray(c.status) == RUNNING, np.asarray(c.steps) + np.asarray(c.rejected)
        most = int(np.where(running, steps, 0).max())
        return Reached(bool(running.any()), most, int(record.total_steps), float(np.asarray(c.t).mean()))

    def budget(self, before, rate):
        return self.iterations  # fixed, because it decides when a batch shrinks, and bits depend on the size of a batch

    def _fill_slots(self, rows: Member, saved: Any, size: int) -> Slots:
        """Fill the slots with the members that run, in order. Other members fill the remaining slots, but do not run."""
        queue = np.flatnonzero(np.asarray(rows.carry.status) == RUNNING)
        first = queue[:size]
        others = np.setdiff1d(np.arange(self.members), first)[: size - len(first)]
        padded = np.concatenate([queue, np.full(self.members - len(queue), -1)])
        return fill_slots(
            rows, saved, from_numpy(padded), jnp.asarray(len(first)), from_numpy(np.append(first, others))
        )


def outcome_of(flows: tuple[Segment, ...], rows: Member, saved: Any, status: np.ndarray) -> EnsembleOutcome:
    """Return the members at the end of their runs, with NumPy arrays for what the driver reads."""
    c = rows.carry
    t, steps, rejected, counts = map(np.asarray, (c.t, c.steps, c.rejected, rows.count))
    return EnsembleOutcome(flows[-1].flow, c.y, t, status, steps, rejected, saved, counts)


def _how_ended(
    states: Sequence[Any], models: Sequence[Transformer], rows: Member, method: AbstractMethod
) -> np.ndarray:
    """Return the status of every member; for a failed step, the status says why it failed."""
    status = np.array(rows.carry.status)
    for k in np.flatnonzero(status == FAILED).tolist():
        t, y = float(rows.carry.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], rows.carry.y)
        flow = next(part.flow for part in segments(states[k], models[k]) if t < part.until)
        status[k], _ = why_failed(method, flow, t, y)
    return status


def _buffer(first: Any, times: int, count: int) -> jax.Array:
    """Return a buffer for the saved values of all members; the first time is filled in if `count` is 1."""
    buffer = np.zeros((len(first), times, *first.shape[1:]), first.dtype)
    buffer[:, :count] = np.asarray(first)[:, None]
    return from_numpy(buffer)
