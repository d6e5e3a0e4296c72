"""Runs that increase their resolution on the way: a spectrum that is no longer resolved gets more modes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..flows import segments
from ..solver.base import FINISHED, STOPPED
from ..solver.stop import OnFlow
from ..stop_rule import AbstractStopRule
from .run import Outcome, Plan, run


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

    def margin(self, t, state, velocity):
        edge = state.unresolved(self.edge)
        ends = edge if self.rule is None else edge | self.rule(t, state, velocity)
        return jnp.where(ends, 1.0, -1.0)

    def resolve(self, model, state):
        return self


class Refined(NamedTuple):
    """Times, states (each with its own resolution), the last outcome, and whether the maximum resolution was too low."""

    times: np.ndarray
    states: list[Any]
    outcome: Outcome
    t: float
    steps: int
    exhausted: bool


@eqx.filter_jit
def _holds(rule: AbstractStopRule, flow: Any, t: Any, y: Any) -> Any:
    return OnFlow(rule)(t, y, flow)


def run_refined(plan: Plan, model: Any, unpack: Callable[[Any, Any], Any], progress: bool | None) -> Refined:
    """Run a plan; each time the spectrum is no longer resolved, continue with more modes, up to the maximum."""
    times, t1, rule, begun, steps, exhausted = plan.save_at, plan.t1, plan.stop, 0.0, 0, False
    states: list[Any] = []
    while True:
        flow: Any = plan.segments[0].flow
        outcome = run(plan._replace(stop=AtEdge(flow.edge, rule)), progress, None, np.inf)
        found = np.asarray(unpack(flow, outcome.saved).coefficients)  # NumPy slices without compiling
        states += [flow.state.replaced(found[k]) for k in range(len(outcome.times))]
        steps, now = steps + outcome.steps, t1 if outcome.status == FINISHED else begun + outcome.t
        if outcome.status != STOPPED:
            break
        if rule is not None and bool(_holds(rule, flow, outcome.t, outcome.y)):
            break  # otherwise the unresolved spectrum ended it
        finer = flow.finer(flow.unpack(outcome.y))
        if finer is None:
            exhausted = True
            break
        begun, parts = now, segments(finer, model)
        left = np.clip(times[len(states) :] - begun, 0, t1 - begun)
        plan = plan._replace(segments=parts, y0=parts[0].flow.pack(finer), t1=t1 - begun, save_at=left)
    times = times[: len(states)]
    if not states or now > times[-1]:
        times = np.append(times, now)
        states.append(flow.unpack(outcome.y))
    states = [state.replaced(state.harmonics.embed(state.coefficients, flow.state.modes)) for state in states]
    return Refined(times, states, outcome, float(times[-1]), steps, exhausted)
