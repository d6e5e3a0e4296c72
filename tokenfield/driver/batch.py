"""Integrate an ensemble through all segments, at most `width` members at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._xla.arrays import from_numpy
from ..flows import Reduction, Segment, segments
from ..solver.base import BLOW_UP, FAILED, FINISHED, HIT, RUNNING, STOPPED, VANISHED, AbstractMethod
from ..transformer import Transformer
from .continuous import BLOW_UP_RTOL, tightened
from .ending import why_failed
from .ensemble_loop import ONE_THREAD_PROGRAMS, PROGRAMS, EnsembleRecord, Member, all_members, choose_each, form_batch
from .members import flows_of, observe_each, pack, put, stack, take
from .run import AbstractLoop, Reached, run
from .session import Session
from .smooth import Options, Plan, Smooth

ITERATIONS, ONE_THREAD_ITERATIONS = 16, 128  # iterations between progress updates
SHRINK_FACTOR = 4  # if at most a quarter of the batch still runs, shrink it to a quarter,
MIN_WIDTH = 16  # but not below this


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
    ends, saved = run_members(plan, width, session)
    status = _how_ended(smalls, small_models, ends, options.method)
    blown = np.flatnonzero(np.isin(status, (BLOW_UP, VANISHED)))
    if len(blown) and options.rtol + options.atol > BLOW_UP_RTOL:
        tight = plan._replace(options=tightened(options))
        again = run_members(tight, width, Session(session.progress), blown)
        ends, saved = jax.tree.map(np.array, (ends, saved))
        put((ends, saved), blown, take(again, blown))
        status = _how_ended(smalls, small_models, ends, options.method)
    return outcome_of(flows, ends, saved, status)


def run_members(
    plan: Plan, width: int | None, session: Session, chosen: np.ndarray | None = None
) -> tuple[Member, Any]:
    """Run members through all segments: all of them, or those chosen. Return all at the end, and their saved values."""
    members = len(jax.tree.leaves(plan.y0)[0])
    loop, bar = Batch(members, width, plan.options.observe, chosen), session.bar("simulating", plan.options.t1)
    record = run(Smooth(plan), loop, bar, session.checkpointer(lambda: plan.identity(members)))
    return record.members, record.saved


class Batch(AbstractLoop):
    """An ensemble, at most `width` members at a time.

    When a member ends, the next one in the queue takes its place. When the queue is empty and most members have ended, the
    others continue in a smaller batch.

    Args:
        members: their number.
        width: the size of the batch; None for all members.
        observe: the function of the state whose values are saved, if any. Its programs use one thread, so that the bits of
            its values do not depend on the number of threads.
        chosen: the indices of the members to run; None for all. The shapes, and so the compiled programs, are the same.
    """

    def __init__(self, members: int, width: int | None, observe: Callable | None, chosen: np.ndarray | None = None):
        self.members, self.observe, self.chosen = members, observe, chosen
        self.width = min(width or members, members)
        single = observe is not None
        self.programs = ONE_THREAD_PROGRAMS if single else PROGRAMS
        self.iterations = ONE_THREAD_ITERATIONS if single else ITERATIONS

    def begin(self, stage, before):
        problem, t = stage.problem, jnp.asarray(stage.t, float)
        if before is None:
            times = problem.settings.save_at
            first, zero = int(len(times) > 0 and float(times[0]) == 0), jnp.zeros(self.members, int)
            starts = self.programs.start(problem, t, stage.y, zero, zero, jnp.full(self.members, first, int))
            if self.chosen is not None:
                runs = np.isin(np.arange(self.members), self.chosen)
                status = jnp.where(runs, starts.carry.status, STOPPED).astype(int)
                starts = eqx.tree_at(lambda member: member.carry.status, starts, status)
            seen = stage.y if self.observe is None else observe_each(problem.flow, stage.y, self.observe)
            return self._form_batch(
                starts, jax.tree.map(lambda leaf: _buffer(leaf, len(times), first), seen), self.width
            )
        old = before.members
        fresh = self.programs.start(problem, t, old.carry.y, old.carry.steps, old.carry.rejected, old.count)
        return self._form_batch(choose_each(old.carry.status == FINISHED, fresh, old), before.saved, self.width)

    def advance(self, problem, record, budget):
        size = smaller = len(record.batch)
        going = int((np.asarray(record.current.carry.status) == RUNNING).sum())
        queued = int((np.asarray(record.queue) >= 0).sum())
        while going <= smaller // SHRINK_FACTOR and smaller // SHRINK_FACTOR >= MIN_WIDTH:
            smaller //= SHRINK_FACTOR
        if smaller < size and int(record.started) == queued:
            total_steps = record.total_steps
            record = self._form_batch(all_members(record), record.saved, smaller)
            record = eqx.tree_at(lambda record: record.total_steps, record, total_steps)
        record = self.programs.advance(problem, record, jnp.asarray(budget))
        hit = np.flatnonzero(np.asarray(record.members.carry.status) == HIT)
        if len(hit) and not self.reached(record).running:
            padded = from_numpy(np.pad(hit, (0, self.members - len(hit)), constant_values=self.members))
            ends = self.programs.finish(problem, record.members, record.saved, padded, self.width)
            record = eqx.tree_at(lambda record: (record.members, record.saved), record, ends)
        return record

    def reached(self, record):
        c = record.current.carry
        running, steps = np.asarray(c.status) == RUNNING, np.asarray(c.steps) + np.asarray(c.rejected)
        most = int(np.where(running, steps, 0).max())
        return Reached(bool(running.any()), most, int(record.total_steps), float(np.asarray(c.t).mean()))

    def budget(self, before, rate):
        return self.iterations  # fixed, because it decides when a batch shrinks, and bits depend on the size of a batch

    def _form_batch(self, members: Member, saved: Any, size: int) -> EnsembleRecord:
        """Put the first members that run into the batch. Other members, which do not run, fill it if there are too few."""
        queue = np.flatnonzero(np.asarray(members.carry.status) == RUNNING)
        first = queue[:size]
        others = np.setdiff1d(np.arange(self.members), first)[: size - len(first)]
        padded = np.concatenate([queue, np.full(self.members - len(queue), -1)])
        return form_batch(
            members, saved, from_numpy(padded), jnp.asarray(len(first)), from_numpy(np.append(first, others))
        )


def outcome_of(flows: tuple[Segment, ...], ends: Member, saved: Any, status: np.ndarray) -> EnsembleOutcome:
    """Return the members at the end of their runs, with NumPy arrays for what the driver reads."""
    c = ends.carry
    t, steps, rejected, counts = map(np.asarray, (c.t, c.steps, c.rejected, ends.count))
    return EnsembleOutcome(flows[-1].flow, c.y, t, status, steps, rejected, saved, counts)


def _how_ended(
    states: Sequence[Any], models: Sequence[Transformer], ends: Member, method: AbstractMethod
) -> np.ndarray:
    """Return the status of every member; for a failed step, the status says why it failed."""
    status = np.array(ends.carry.status)
    for k in np.flatnonzero(status == FAILED).tolist():
        t, y = float(ends.carry.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], ends.carry.y)
        flow = next(part.flow for part in segments(states[k], models[k]) if t < part.until)
        status[k], _ = why_failed(method, flow, t, y)
    return status


def _buffer(first: Any, times: int, count: int) -> jax.Array:
    """Return a buffer for the saved values of all members; the first time is filled in if `count` is 1."""
    buffer = np.zeros((len(first), times, *first.shape[1:]), first.dtype)
    buffer[:, :count] = np.asarray(first)[:, None]
    return from_numpy(buffer)
