"""Runs with noise: checks of their options, and their method."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._check import count
from ..flows import AbstractNoisyFlow, Segment
from ..solver.langevin import Langevin, default_dt, steps_between
from ..transformer import Transformer
from .errors import TooManySteps
from .smooth import Plan

MOST_STEPS = 2**32 - 1  # each step has its own key, which is made from 32 bits


def langevin(plan: Plan, state: Any, dt: float | None, scheme: str, seed: int) -> Langevin:
    """Return the method of a run with noise; raise TooManySteps if it would take more steps than the plan allows."""
    flow = plan.segments[0].flow
    assert isinstance(flow, AbstractNoisyFlow)
    dt = float(default_dt(flow, state, plan.t1)) if dt is None else dt
    check_steps(plan.segments, plan.t1, plan.save_at, dt, plan.max_steps)
    return Langevin(scheme, jnp.asarray(dt, float), jax.random.key(seed))


def check_steps(parts: tuple[Segment, ...], t1: float, times: np.ndarray, dt: float, max_steps: int) -> None:
    """Raise TooManySteps if a run with step size dt, whose steps end at the save times, would take more than `max_steps`."""
    ends = np.unique([*times[times > 0], *(float(part.until) for part in parts if float(part.until) < t1), t1])
    with np.errstate(over="ignore", divide="ignore"):
        total = float(np.sum(steps_between(np.concatenate([[0.0], ends[:-1]]), ends, dt)))
    most = min(max_steps, MOST_STEPS)
    if total > most:
        bound = "max_steps =" if most == max_steps else "the number of random keys,"
        raise TooManySteps(
            f"a run to t1 = {t1:g} with dt = {dt:.3g} takes {total:.3g} steps, more than {bound} {most}: "
            "use a larger dt, a smaller t1 or less noise, or increase max_steps"
        )


def checked_seed(seed: Any, model: Transformer, name: str = "seed") -> int:
    """Return the seed, which a random model must have."""
    if seed is None:
        raise ValueError(f"{name} must be given: {type(model.noise).__name__} makes this model random")
    seed = count(name, seed, 0)
    if seed >= 2**63:
        raise ValueError(f"{name} must be less than 2^63, got {seed}")
    return seed


def refuse(**options: Any) -> None:
    """Raise ValueError for the first option that was given but does not apply to fixed random steps."""
    for name, given in options.items():
        if given:
            raise ValueError(f"{name} is not supported for a model with noise, which runs to t1 in fixed steps dt")
