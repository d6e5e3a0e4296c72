"""Runs whose resolution is raised on the way: a spectrum that reaches its edge gets more modes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..flows import segments
from . import loop
from .run import Outcome, Plan, run
from .stop import AbstractStopRule


class AtEdge(AbstractStopRule):
    """Holds when the state's spectrum reaches its edge, or when another rule does."""

    edge: float = eqx.field(static=True)
    rule: AbstractStopRule | None

    @property
    def kind(self):
        return "resolution"

    def __call__(self, t, state, velocity):
        edge = state.tail > self.edge
        return edge if self.rule is None else edge | self.rule(t, state, velocity)


class Refined(NamedTuple):
    """Times, states at them (each with its own resolution), the last outcome, and whether the resolution ran out."""

    times: np.ndarray
    states: list[Any]
    outcome: Outcome
    t: float
    steps: int
    exhausted: bool


@eqx.filter_jit
def _tail(state: Any) -> Any:
    return state.tail


def run_refined(plan: Plan, model: Any, unpack: Callable[[Any, Any], Any], progress: bool | None) -> Refined:
    """Run a plan; each time the spectrum reaches its edge, go on with more modes, as long as that is allowed."""
    times: list[np.ndarray] = []
    states: list[Any] = []
    t, steps, exhausted = 0.0, 0, False
    while True:
        flow: Any = plan.segments[0].flow
        outcome = run(plan._replace(stop=AtEdge(flow.edge, plan.stop)), progress, None, np.inf)
        found = np.asarray(unpack(flow, outcome.saved).coefficients)  # NumPy cuts without compiling
        times.append(t + outcome.times)
        states += [flow.state.with_coefficients(found[k]) for k in range(len(outcome.times))]
        t, steps = t + outcome.t, steps + outcome.steps
        last = flow.unpack(outcome.y)
        if outcome.status != loop.STOPPED or not bool(_tail(last) > flow.edge):
            break
        finer = flow.finer(last)
        if finer is None:
            exhausted = True
            break
        parts, done = segments(finer, model), len(outcome.times)
        left = plan.save_at[done:] - outcome.t
        plan = plan._replace(segments=parts, y0=parts[0].flow.pack(finer), t1=plan.t1 - outcome.t, save_at=left)
    if not times or not len(times[-1]) or times[-1][-1] != t:
        times.append(np.array([t]))
        states.append(flow.state.with_coefficients(jnp.asarray(outcome.y)))
    modes = states[-1].modes
    return Refined(np.concatenate(times), [state.resized(modes) for state in states], outcome, t, steps, exhausted)
