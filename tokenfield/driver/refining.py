"""Runs of a density that add modes when the spectrum is no longer resolved."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..flows import refined, segments, with_most_modes
from ..solver.base import FINISHED, RUNNING, STOPPED, UNRESOLVED
from ..solver.stop import OnFlow
from ..stop_rule import AbstractStopRule
from .run import AbstractSchedule, Stage
from .session import Session
from .smooth import Outcome, Plan, integrate, padded, problem_of


class AtEdge(AbstractStopRule):
    """Stop when the last modes of the state's spectrum become too large, or when another rule holds."""

    edge: float = eqx.field(static=True)
    rule: AbstractStopRule | None

    @property
    def differentiable(self):
        return False

    @property
    def kind(self):
        return "resolution"

    @property
    def rotation_invariant(self):
        return True

    @property
    def clusters(self):
        return None

    def margin(self, t, state, velocity):
        edge = state.unresolved(self.edge)
        ends = edge if self.rule is None else edge | self.rule(t, state, velocity)
        return jnp.where(ends, 1.0, -1.0)

    def resolve(self, model, state):
        return self


class Refining(AbstractSchedule):
    """A run of a density that adds modes, up to the maximum, each time the spectrum is no longer resolved.

    Args:
        plan: the run with the initial number of modes.
        model: the model, from which the flow of a finer density is built.
    """

    def __init__(self, plan: Plan, model: Any):
        self.options, self.model = plan.options, model
        self.saved: list[np.ndarray] = []
        self.ended, self.status, self.t = False, RUNNING, 0.0
        self._start(0.0, plan.segments[0].flow, plan.y0)

    def _start(self, t_start: float, flow: Any, y: Any) -> None:
        self.t_start, self.flow, self.y = t_start, flow, y

    @property
    def max_steps(self):
        return self.options.max_steps

    def stage(self):
        if self.ended:
            return None
        times, end = padded(self.options.save_at[len(self.saved) :], self.y), self.options.t1
        options = self.options._replace(save_at=times, stop=AtEdge(self.flow.edge, self.options.stop))
        return Stage(problem_of(options, self.flow, end, end), self.t_start, self.y)

    def after_chunk(self, record):
        pass

    def finish(self, record):
        status, y = int(record.carry.status), record.carry.y
        self.saved += [*np.asarray(record.saved)[: int(record.count)]]
        self.t = self.options.t1 if status == FINISHED else float(record.carry.t)
        self.ended, self.status, self.y = True, status, y
        rule = self.options.stop
        if status != STOPPED or (rule is not None and bool(_holds(rule, self.flow, record.carry.t, y))):
            return
        finer = refined(self.flow.unpack(y))  # the spectrum is no longer resolved
        if finer is None:
            self.status = UNRESOLVED
        else:
            flow: Any = segments(finer, self.model)[0].flow
            self.ended = False
            self._start(self.t, flow, flow.pack(finer))

    def progress(self, t):
        return t

    def reached(self, t):
        return f"t = {t:.6g} of {self.options.t1:.6g}"

    def checkpoint_data(self):
        return {"begun": self.t_start, "y": np.asarray(self.y), "saved": [*self.saved]}

    def restore(self, data):
        state = self.flow.state.replaced(jnp.asarray(data["y"]))
        flow: Any = segments(state, self.model)[0].flow
        self.saved = data["saved"]
        self._start(data["begun"], flow, flow.pack(state))

    def states(self) -> tuple[np.ndarray, list[Any]]:
        """Return the saved times and states, and the last one, all with the final number of modes."""
        times, saved, final = self.options.save_at[: len(self.saved)], [*self.saved], self.flow.state
        if not saved or self.t > times[-1]:
            times = np.append(times, self.t)
            saved.append(np.asarray(self.flow.unpack(self.y).coefficients))
        return times, with_most_modes([*(final.replaced(coefficients) for coefficients in saved), final])[:-1]


def integrate_resolved(
    plan_of: Callable[[Any], Plan], state: Any, session: Session, unit: tuple[float, str] = (1.0, "")
) -> tuple[Outcome, Plan]:
    """Integrate a run, and again from its start with more modes as long as a density is not resolved; return the last plan too.

    This is for noise and layers: a run from the start follows the same path of the noise, and depends on one number of modes.

    Args:
        plan_of: returns the plan for an initial state.
        state: the initial state; one that is not a density runs once.
        session, unit: as for `integrate`. Each run after the first has a checkpoint of its own.
    """
    plan = plan_of(state)
    outcome = integrate(plan, session, unit)
    while outcome.status == UNRESOLVED and (finer := refined(state)) is not None:
        state, plan = finer, plan_of(finer)
        outcome = integrate(plan, session.of_part(state.modes), unit)
    return outcome, plan


@eqx.filter_jit
def _holds(rule: AbstractStopRule, flow: Any, t: Any, y: Any) -> Any:
    return OnFlow(rule)(t, y, flow)
