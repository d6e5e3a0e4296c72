"""Run one simulation: smooth segments one after another, in chunks, with progress and checkpoints."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..flows import Segment
from ..flows.layers import LayerFlow
from ..solver.base import FINISHED, RUNNING, AbstractMethod, Settings
from ..solver.langevin import Langevin
from ..solver.stop import OnFlow
from ..stop_rule import AbstractStopRule
from . import checkpoint
from .errors import SolverError
from .fingerprint import Program, fingerprint
from .progress import Progress
from .record import Problem, Record, begin, go_on

CHUNK_SECONDS = 0.3
PADDED_NUMBERS = 1 << 20  # a buffer of more numbers is not padded


class Plan(NamedTuple):
    """Everything that defines a run."""

    segments: tuple[Segment, ...]
    y0: Any
    t1: float
    save_at: np.ndarray
    rtol: float
    atol: float
    method: AbstractMethod
    stop: AbstractStopRule | None
    max_steps: int

    @property
    def identity(self) -> str:
        """Return the fingerprint of everything that the run computes."""
        settings = (self.t1, self.save_at, self.rtol, self.atol, self.max_steps)
        t, programs = jnp.zeros(()), []
        h = jnp.ones(())
        for flow in {id(segment.flow): segment.flow for segment in self.segments}.values():
            if isinstance(flow, LayerFlow):
                programs.append(Program("model", lambda flow, *given: flow.layer(*given), (flow, t, self.y0, h)))
                continue
            programs.append(Program("model", right_hand_side, (flow, t, self.y0)))
            if isinstance(self.method, Langevin):
                kick = lambda flow, *given: flow.kick(*given)  # noqa: E731
                programs.append(Program("noise", kick, (flow, jax.random.key(0), t, self.y0, t)))
            if self.stop is not None:
                programs.append(Program("stop_when", OnFlow(self.stop), (t, self.y0, flow)))
        return fingerprint(self.segments, self.y0, settings, self.method, self.stop, programs=programs)


class Outcome(NamedTuple):
    """Saved times, a buffer whose first rows are the unknowns at these times, how the run ended, and its numbers of steps."""

    times: np.ndarray
    saved: Any
    flow: Any
    t: float
    y: Any
    status: int
    steps: int
    rejected: int


def right_hand_side(flow: Any, t: Any, y: Any) -> Any:
    """Return everything that a method evaluates of a flow, for the fingerprint to trace."""
    size = flow.error_size(y, y, y, t, t)
    return flow.velocity(t, y), flow.retract(y), size, flow.longest_step(t, y), flow.unpack(y)


@eqx.filter_jit
def packed(flow: Any, state: Any) -> Any:
    """Return the unknowns that represent a state, computed by one program instead of many small ones."""
    return flow.pack(state)


def padded(save_at: np.ndarray, y: Any) -> np.ndarray:
    """Return the save times, padded with inf to one of a few lengths, so that runs of different lengths share programs.

    Large buffers are not padded.
    """
    room = 1 << max(len(save_at) - 1, 7).bit_length()
    numbers = sum(leaf.size for leaf in jax.tree.leaves(y))
    if not len(save_at) or room * numbers > PADDED_NUMBERS:
        return save_at
    return np.pad(save_at, (0, room - len(save_at)), constant_values=np.inf)


def run(plan: Plan, progress: bool | None, path: Path | None, every: float, unit: str = "") -> Outcome:
    """Integrate; resume from the checkpoint at `path` if there is one, and write one every `every` seconds.

    Args:
        unit: if given, the progress bar counts steps under this name, e.g. "layers", instead of time.
    """
    keeper = checkpoint.Keeper(path, lambda: plan.identity, every)
    resumed = keeper.read()
    first = resumed[0] if resumed else 0
    stop = None if plan.stop is None else OnFlow(plan.stop)
    save_at = jnp.asarray(padded(plan.save_at, plan.y0), float)
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    record: Record | None = None
    t, y = 0.0, plan.y0
    with Progress(progress, "simulating", plan.max_steps - 1 if unit else plan.t1, unit) as bar:
        for k in range(first, len(plan.segments)):
            segment = plan.segments[k]
            end = min(float(segment.until), plan.t1)
            jumps = k + 1 < len(plan.segments) and end == segment.until
            t_last = np.nextafter(end, -np.inf) if jumps else end
            settings = Settings(number(end), number(t_last), save_at, number(plan.rtol), number(plan.atol))
            problem = Problem(segment.flow, plan.method, settings, stop)
            record = begin(problem, number(t), y, record)
            if resumed and k == first:  # shapes from this record, all numbers from the file
                record = checkpoint.restore(record, resumed[1])
            record = _chunks(problem, plan, record, bar, keeper, k)
            finished = int(record.carry.status) == FINISHED
            t, y = end if finished else float(record.carry.t), record.carry.y
            if not finished or end >= plan.t1:
                break
    assert record is not None
    keeper.write(k, record)
    c = record.carry
    times = plan.save_at[: int(record.count)]
    return Outcome(times, record.saved, problem.flow, t, y, int(c.status), int(c.steps), int(c.rejected))


def _chunks(
    problem: Problem, plan: Plan, record: Record, bar: Progress, keeper: checkpoint.Keeper, segment: int
) -> Record:
    """Run chunks until the segment ends; the size of a chunk does not affect the results."""
    budget = 16
    taken: Callable[[Record], int] = lambda r: int(r.carry.steps) + int(r.carry.rejected)  # noqa: E731
    try:
        while int(record.carry.status) == RUNNING:
            done = taken(record)
            if done >= plan.max_steps:
                raise SolverError(
                    f"max_steps = {plan.max_steps} steps were not enough: stopped at t = {float(record.carry.t):.6g} of "
                    f"{plan.t1:.6g}; increase max_steps or loosen the tolerances"
                )
            begun = time.monotonic()
            record = go_on(problem, record, jnp.asarray(min(budget, plan.max_steps - done)))
            jax.block_until_ready(record.carry.t)
            spent = max(time.monotonic() - begun, 1e-9)
            rate = (taken(record) - done) / spent
            bar.update(int(record.carry.steps) if bar.things else float(record.carry.t), rate)
            budget = int(min(max(rate * CHUNK_SECONDS, 4), 4 * budget))
            if keeper.due():
                keeper.write(segment, record)
    except BaseException:  # Ctrl-C too
        keeper.write(segment, record)
        raise
    return record
