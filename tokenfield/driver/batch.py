"""Integrate an ensemble through all segments, at most `width` members at a time."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..flows import Reduction, Segment, segments
from ..solver.base import BLOW_UP, FAILED, FINISHED, HIT, RUNNING, STOPPED, VANISHED, AbstractMethod, Carry, choose
from ..transformer import Transformer
from .continuous import BLOW_UP_RTOL, tightened
from .ending import why_failed
from .members import flows_of, pack, put, stack, take
from .record import ONE_THREAD_PROGRAMS, PROGRAMS, Record
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
    plan = Plan(options, flows, pack(flows[0].flow, stack(smalls)), len(members))
    ends = run_members(plan, width, session)
    status = _how_ended(smalls, small_models, ends.carry, options.method)
    blown = np.flatnonzero(np.isin(status, (BLOW_UP, VANISHED)))
    if len(blown) and options.rtol + options.atol > BLOW_UP_RTOL:
        tight = plan._replace(options=tightened(options))
        again = run_members(tight, width, Session(session.progress), blown)
        ends = jax.tree.map(np.array, ends)
        put(ends, blown, take(again, blown))
        status = _how_ended(smalls, small_models, ends.carry, options.method)
    return outcome_of(flows, ends, status)


def run_members(plan: Plan, width: int | None, session: Session, chosen: np.ndarray | None = None) -> Record:
    """Run members through all segments: all of them, or those chosen. Return all at the end."""
    assert plan.members is not None
    loop, bar = Batch(plan.members, width, plan.options.observe, chosen), session.bar("simulating", plan.options.t1)
    return run(Smooth(plan), loop, bar, session.checkpointer(plan.identity))


class Batch(AbstractLoop):
    """An ensemble, at most `width` members at a time.

    When no member waits and most have ended, the others continue in a smaller batch.

    Args:
        members: their number.
        width: the size of the batch; None for all members.
        observe: the function of the state whose values are saved, if any. Its programs use one thread, so that the bits of
            its values do not depend on the number of threads.
        chosen: the indices of the members to run; None for all. The shapes, and so the compiled programs, are the same.
    """

    def __init__(self, members: int, width: int | None, observe: Callable | None, chosen: np.ndarray | None = None):
        self.members, self.chosen = members, chosen
        self.width = min(width or members, members)
        single = observe is not None
        self.programs = ONE_THREAD_PROGRAMS if single else PROGRAMS
        self.iterations = ONE_THREAD_ITERATIONS if single else ITERATIONS

    def begin(self, stage, before):
        problem, t = stage.problem, jnp.asarray(stage.t, float)
        if before is not None:
            c = before.carry
            fresh = self.programs.start(problem, t, c.y, c.steps, c.rejected, (before.saved, before.count))
            return choose(c.status == FINISHED, fresh, before)
        zero = jnp.zeros(self.members, int)
        record = self.programs.start(problem, t, stage.y, zero, zero, None)
        if self.chosen is None:
            return record
        runs = np.isin(np.arange(self.members), self.chosen)
        status = jnp.where(runs, record.carry.status, STOPPED).astype(int)
        return eqx.tree_at(lambda record: record.carry.status, record, status)

    def advance(self, problem, record, budget):
        running, width = int((np.asarray(record.carry.status) == RUNNING).sum()), self.width
        while running <= width // SHRINK_FACTOR and width // SHRINK_FACTOR >= MIN_WIDTH:
            width //= SHRINK_FACTOR
        record = self.programs.advance(problem, record, jnp.asarray(budget), None if width == self.members else width)
        status = np.asarray(record.carry.status)
        if (status == RUNNING).any() or not (status == HIT).any():  # those that are HIT wait for their last steps
            return record
        return self.programs.finish(problem, record, self.width)

    def reached(self, record):
        c = record.carry
        running, steps = np.asarray(c.status) == RUNNING, np.asarray(c.steps) + np.asarray(c.rejected)
        most = int(np.where(running, steps, 0).max())
        return Reached(bool(running.any()), most, int(steps.sum()), float(np.asarray(c.t).mean()))

    def budget(self, before, rate):
        return self.iterations  # fixed, because it decides when a batch shrinks, and bits depend on the size of a batch


def outcome_of(flows: tuple[Segment, ...], ends: Record, status: np.ndarray) -> EnsembleOutcome:
    """Return the members at the end of their runs, with NumPy arrays for what the driver reads."""
    c = ends.carry
    t, steps, rejected, counts = map(np.asarray, (c.t, c.steps, c.rejected, ends.count))
    return EnsembleOutcome(flows[-1].flow, c.y, t, status, steps, rejected, ends.saved, counts)


def _how_ended(states: Sequence[Any], models: Sequence[Transformer], ends: Carry, method: AbstractMethod) -> np.ndarray:
    """Return the status of every member; for a failed step, the status says why it failed."""
    status = np.array(ends.status)
    for k in np.flatnonzero(status == FAILED).tolist():
        t, y = float(ends.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], ends.y)
        flow = next(part.flow for part in segments(states[k], models[k]) if t < part.until)
        status[k], _ = why_failed(method, flow, t, y)
    return status
