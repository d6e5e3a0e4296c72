"""Runs with noise: checks of their options, and their method."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._check import count
from ..flows import AbstractNoisyFlow, Reduction, segments
from ..solver.langevin import Langevin, default_dt, steps_between
from ..transformer import Transformer
from .errors import TooManySteps
from .smooth import Plan

MOST_STEPS = 2**32 - 1  # each step has its own key, which is made from 32 bits


def langevin(small: Reduction, t1: float, dt: float | None, scheme: str, seed: int) -> Langevin:
    """Return the method of a run with noise, by default with the step size that fits its flow."""
    if dt is None:
        flow = segments(small.state, small.model)[0].flow
        assert isinstance(flow, AbstractNoisyFlow)
        dt = float(default_dt(flow, small.state, t1))
    return Langevin(scheme, jnp.asarray(dt, float), jax.random.key(seed))


def check_steps(plan: Plan, dt: float) -> None:
    """Raise TooManySteps if a run with step size dt, whose steps end at the save times, would take more than `max_steps`."""
    t1, times, max_steps = plan.options.t1, plan.options.save_at, plan.options.max_steps
    ends = np.unique([*times[times > 0], *(float(part.until) for part in plan.segments if float(part.until) < t1), t1])
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
