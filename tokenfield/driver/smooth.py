"""Runs of a flow, or of layers: one smooth segment of time after another."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._kinds import is_ours
from .._xla.arrays import from_numpy
from .._xla.compilation import compiled_once
from ..flows import AbstractNoisyFlow, Segment
from ..flows.layers import AbstractLayerFlow
from ..solver.base import FINISHED, AbstractMethod, Problem, Settings
from ..solver.langevin import Langevin
from ..solver.stop import OnFlow
from ..stop_rule import AbstractStopRule
from .fingerprint import Program, fingerprint
from .run import AbstractSchedule, Stage, run
from .session import Session
from .single import Single

PADDED_NUMBERS = 1 << 20  # a buffer of more numbers is not padded


class Options(NamedTuple):
    """How a run is integrated. In an ensemble, the arrays of the method may have a member axis.

    Args:
        save_at: the save times; with method "coarsen", none of them means the steps of the run.
        stop: the rule that ends the run, if any.
        observe: a function of the state whose values are saved instead of the unknowns.
    """

    t1: float
    save_at: np.ndarray
    rtol: float
    atol: float
    method: AbstractMethod
    stop: AbstractStopRule | None
    max_steps: int
    observe: Any = None


class Plan(NamedTuple):
    """Everything that defines a run, or an ensemble: the arrays of its flows and of y0 have a leading axis of `members`."""

    options: Options
    segments: tuple[Segment, ...]
    y0: Any
    members: int | None = None

    def identity(self) -> str:
        """Return the fingerprint of everything that the run computes."""
        options, single = self.options, (lambda tree: tree) if self.members is None else first_member
        flows = {id(segment.flow): single(segment.flow) for segment in self.segments}
        programs = programs_of(tuple(flows.values()), single(self.y0), options.method, options.stop)
        if _has_own_code(options.method):
            settings = _settings(options, options.t1, options.t1)
            for flow in flows.values():
                programs.append(Program("method", _first_step, (options.method, flow, settings, single(self.y0))))
        return fingerprint(self.segments, self.y0, options, self.members, programs=programs)


class Smooth(AbstractSchedule):
    """The smooth segments of a run, one after another.

    Args:
        plan: the run.
        unit: the time that the progress bar counts as 1.
    """

    def __init__(self, plan: Plan, unit: float = 1.0):
        self.plan, self.unit = plan, unit
        self.segment, self.t, self.y, self.ended = 0, 0.0, plan.y0, False

    @property
    def max_steps(self):
        return self.plan.options.max_steps

    @property
    def end(self) -> float:
        return min(float(self.plan.segments[self.segment].until), self.plan.options.t1)

    def stage(self):
        if self.ended:
            return None
        plan, end = self.plan, self.end
        jumps = self.segment + 1 < len(plan.segments) and end == plan.segments[self.segment].until
        t_last = np.nextafter(end, -np.inf) if jumps else end
        problem = problem_of(plan.options, plan.segments[self.segment].flow, end, t_last, plan.members is not None)
        return Stage(problem, self.t, self.y, continues=self.segment > 0)

    def after_chunk(self, record):
        pass

    def finish(self, record):
        carry = record.carry
        self.ended = not bool(np.any(np.asarray(carry.status) == FINISHED)) or self.end >= self.plan.options.t1
        if not self.ended:
            self.segment, self.t, self.y = self.segment + 1, self.end, carry.y

    def progress(self, t):
        return t / self.unit

    def reached(self, t):
        return f"t = {t:.6g} of {self.plan.options.t1:.6g}"

    def checkpoint_data(self):
        return {"segment": self.segment}

    def restore(self, data):
        self.segment = data["segment"]  # the time and the unknowns are in the record


class Outcome(NamedTuple):
    """Saved times, a buffer with the unknowns at these times in its first rows, how the run ended, and its step counts."""

    times: np.ndarray
    saved: Any
    flow: Any
    t: float
    y: Any
    status: int
    steps: int
    rejected: int


def integrate(plan: Plan, session: Session = Session(), unit: tuple[float, str] = (1.0, "")) -> Outcome:
    """Integrate one run; resume from the checkpoint of the session if there is one.

    Args:
        unit: what the progress bar counts: a time, and its name, e.g. "layers".
    """
    options = plan.options
    plan = plan._replace(options=options._replace(save_at=padded(options.save_at, plan.y0)))
    schedule, bar = Smooth(plan, unit[0]), session.bar("simulating", options.t1 / unit[0], unit[1])
    record = run(schedule, Single(), bar, session.checkpointer(plan.identity))
    c, flow = record.carry, plan.segments[schedule.segment].flow
    t = schedule.end if int(c.status) == FINISHED else float(c.t)
    times = options.save_at[: int(record.count)]
    return Outcome(times, record.saved, flow, t, c.y, int(c.status), int(c.steps), int(c.rejected))


def problem_of(options: Options, flow: Any, end: float, t_last: float, ensemble: bool = False) -> Problem:
    """Return the problem of a segment that ends at `end`, whose flow may be evaluated up to `t_last`."""
    stop = None if options.stop is None else OnFlow(options.stop)
    return Problem(flow, options.method, _settings(options, end, t_last), stop, options.observe, ensemble)


def _settings(options: Options, end: float, t_last: float) -> Settings:
    return Settings(
        *(from_numpy(np.asarray(value, float)) for value in (end, t_last, options.save_at, options.rtol, options.atol))
    )


def first_member(tree: Any) -> Any:
    """Return the first member of a tree with a leading member axis."""
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, tree)


def programs_of(
    flows: tuple[Any, ...], y0: Any, method: AbstractMethod, stop: AbstractStopRule | None
) -> list[Program]:
    """Return the functions that a run evaluates, for its fingerprint."""
    t, h, programs = jnp.zeros(()), jnp.ones(()), []
    for flow in flows:
        if isinstance(flow, AbstractLayerFlow):
            programs.append(Program("model", lambda flow, *given: flow.layer(*given), (flow, t, y0, h)))
            continue
        programs.append(Program("model", right_hand_side, (flow, t, y0)))
        if isinstance(method, Langevin):
            kick = lambda flow, key, t, y, h: flow.kick(key, t, flow.scattered(y), h)  # noqa: E731
            programs.append(Program("noise", kick, (flow, jax.random.key(0), t, y0, t)))
        if stop is not None:
            programs.append(Program("stop_when", OnFlow(stop), (t, y0, flow)))
    return programs


def _has_own_code(part: Any) -> bool:
    """Return True if a part of a method is a class of the user."""
    if not isinstance(part, eqx.Module):
        return False
    known = is_ours(type(part)) or type(part).__module__.startswith("diffrax.")
    return not known or any(_has_own_code(getattr(part, field.name)) for field in dataclasses.fields(part))


def _first_step(method: AbstractMethod, flow: Any, settings: Settings, y: Any) -> Any:
    """Return the first step of a method, for the fingerprint to trace."""
    return method.step(flow, settings, method.init(flow, settings, jnp.zeros(()), y))


def right_hand_side(flow: Any, t: Any, y: Any) -> Any:
    """Return everything that a method computes from a flow, for the fingerprint to trace."""
    size = flow.error_size(y, y, y, t, t)
    moved = flow.scattered(y) if isinstance(flow, AbstractNoisyFlow) else y
    return flow.velocity(t, moved), flow.retract(y), size, flow.limits.longest_step(t, y), flow.unpack(y)


@compiled_once
def packed(flow: Any, state: Any) -> Any:
    """Return the unknowns that represent a state, computed by one program instead of many small ones."""
    return flow.pack(state)


def padded(save_at: np.ndarray, y: Any) -> np.ndarray:
    """Return the save times, padded with inf to one of a few lengths, so that runs of different lengths share programs.

    Large buffers are not padded.
    """
    padded_size = 1 << max(len(save_at) - 1, 7).bit_length()
    numbers = sum(leaf.size for leaf in jax.tree.leaves(y))
    if not len(save_at) or padded_size * numbers > PADDED_NUMBERS:
        return save_at
    return np.pad(save_at, (0, padded_size - len(save_at)), constant_values=np.inf)
