"""`simulate_many`: many starts (and models) of one shape, side by side in one compiled program."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._check import count, positive
from ..flows import AbstractNoisyFlow, is_random, prepare, segments
from ..results.describe import describe
from ..results.ensemble import Ensemble, stacked_dataset
from ..results.provenance import provenance
from ..transformer import Transformer, only_transformer
from . import loop, stochastic
from .continuous import ATOL, RTOL, save_times
from .members import flows_of, log_time_unit, stack, unpack, unpack_saved
from .steppers import stepper
from .stop import AbstractStopRule, as_rule
from .turns import AdaptiveCourse, solve_many


def simulate_many(
    model: Transformer | Sequence[Transformer],
    states: Any,
    t1: float,
    *,
    save_at: int | ArrayLike | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    seeds: ArrayLike | None = None,
    stop_when: AbstractStopRule | Callable | None = None,
    method: str | None = None,
    dt: float | None = None,
    progress: bool | None = None,
    max_steps: int = 1_000_000,
) -> Ensemble:
    """`simulate` for many states of one kind and size at once, each with its own steps, stop and blow-up.

    Args:
        model: one Transformer for all, or one for each state (equal but for the values of their arrays).
        states: the starts, e.g. a list of `Gaussian` of one dimension; with seeds also one start for all.
        seeds: for random models (tokens with noise): one seed for each member.
        t1, save_at, rtol, atol, stop_when, method, progress, max_steps: as for `simulate`.
        dt: the fixed step of runs with noise, as for `simulate`; by default what the member that needs the smallest has.

    Returns:
        An `Ensemble`: `.dataset` has a first axis `member`; `ensemble[k]` is the `Trajectory` of member k.

    Example:
        >>> import tokenfield as tkf
        >>> starts = [tkf.Equiangular(rho, n=32) for rho in (0.0, 0.3, 0.6)]
        >>> tkf.simulate_many(tkf.Transformer(tkf.Softmax(beta=4.0), tkf.PostLN()), starts, t1=5.0)
    """
    if isinstance(states, eqx.Module):
        if seeds is None:
            raise ValueError("states must be a list; one state for all members needs seeds for a model with noise")
        states = [states] * np.size(seeds)
    states = list(states)
    if not states:
        raise ValueError("states must hold at least one state")
    models = [only_transformer(each) for each in (model if isinstance(model, Iterable) else [model] * len(states))]
    if len(models) != len(states):
        raise ValueError(
            f"model must be one Transformer or one for each of the {len(states)} states, got {len(models)}"
        )
    t1 = positive("t1", t1)
    if any(is_random(state, each) for state, each in zip(states, models, strict=True)):
        stochastic.refuse(stop_when=stop_when is not None, rtol=rtol != RTOL, atol=atol != ATOL)
        return _simulate_noisy(models, states, t1, save_times(save_at, t1), seeds, method, dt, max_steps, progress)
    if seeds is not None or dt is not None:
        raise ValueError(
            f"{'seeds' if dt is None else 'dt'} is for models with noise, but nothing in this model is random"
        )
    method = "tsit5" if method is None else method
    rtol, atol = positive("rtol", rtol, or_zero=True), positive("atol", atol)
    chosen, max_steps = stepper(method), count("max_steps", max_steps)
    if not chosen.adaptive:
        raise ValueError(f"method {method!r} has no error control: use simulate with a fixed step")
    times = save_times(save_at, t1)
    rule = as_rule(stop_when)
    rule = None if rule is None else rule.resolve(models[0], states[0])

    course = AdaptiveCourse(t1, times, rtol, atol, chosen, rule, max_steps, progress)
    smalls, lifts, flows, carry = solve_many(models, states, course)
    saved = jax.tree.map(np.asarray, unpack_saved(flows[-1].flow, carry.saved))
    final = jax.tree.map(np.asarray, unpack(flows[-1].flow, carry.y))
    member = lambda tree, k: jax.tree.map(lambda leaf: leaf[k], tree)  # noqa: E731
    if any(small is not state for small, state in zip(smalls, states, strict=True)):
        once = lambda state: jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)  # noqa: E731
        final = stack([member(lift(once(member(final, k))), 0) for k, lift in enumerate(lifts)], np)
        saved = stack([lift(member(saved, k)) for k, lift in enumerate(lifts)], np)
    unit = log_time_unit(flows[-1].flow)
    kinds = {loop.STOPPED: rule.kind if rule else "", loop.UNDERFLOW: "blow_up"}
    ends = [
        (kinds.get(int(status)), float(t)) for status, t in zip(*map(np.asarray, (carry.status, carry.t)), strict=True)
    ]
    config = {
        "model": describe(models[0]) if isinstance(model, Transformer) else [describe(each) for each in models],
        "t1": t1,
        "rtol": rtol,
        "atol": atol,
        "method": method,
        "stop_when": describe(rule),
        "max_steps": max_steps,
    }
    attributes = {
        **provenance(),
        "config": json.dumps(config),
        "events": json.dumps([[] if kind is None else [{"kind": kind, "time": t}] for kind, t in ends]),
        "log_time_unit": unit,
        "steps": int(carry.steps.sum()),
        "rejected_steps": int(carry.rejected.sum()),
    }
    counts, reached = np.asarray(carry.saved_count), np.asarray(carry.t)
    return Ensemble(stacked_dataset(saved, times, counts, final, reached).assign_attrs(attributes))


def _simulate_noisy(
    models: list[Transformer],
    states: list[Any],
    t1: float,
    times: np.ndarray,
    seeds: Any,
    method: str | None,
    dt: float | None,
    max_steps: int,
    progress: bool | None,
) -> Ensemble:
    """Members with kicks of their own, in steps that they share."""
    if seeds is None:
        stochastic.checked_seed(None, models[0], "seeds")
    if np.ndim(seeds) != 1 or len(np.asarray(seeds)) != len(states):
        raise ValueError(f"seeds must hold one seed for each of the {len(states)} members, got {seeds!r}")
    numbers = [stochastic.checked_seed(seed, models[0], "seeds") for seed in np.asarray(seeds).tolist()]
    method, max_steps = stochastic.checked_method(method), count("max_steps", max_steps)
    made: dict[tuple[int, int], tuple[Any, Transformer, Any, float]] = {}
    pairs = [(id(state), id(each)) for state, each in zip(states, models, strict=True)]
    for pair, state, each in zip(pairs, states, models, strict=True):
        if pair not in made:
            small, small_model, _ = prepare(state, each, stochastic.SMALL)
            flow = segments(small, small_model)[0].flow
            if not isinstance(flow, AbstractNoisyFlow):
                raise ValueError("either all models must have noise or none")
            made[pair] = small, small_model, flow.retract(flow.pack(small)), stochastic.default_dt(flow, small, t1)
    smalls, small_models, starts, steps_of = zip(*(made[pair] for pair in pairs), strict=True)
    flows = flows_of(smalls, small_models)
    dt = min(steps_of) if dt is None else positive("dt", dt)
    course = stochastic.Course(t1, times, dt, method, max_steps, progress)
    y0 = stack(starts)
    keys = jax.vmap(jax.random.key)(jnp.asarray(numbers))
    saved, y, steps = stochastic.follow(flows, y0, keys, course, many=True)
    saved = jax.tree.map(np.asarray, unpack_saved(flows[-1].flow, saved))
    final = jax.tree.map(np.asarray, unpack(flows[-1].flow, y))
    attributes = stochastic.record(models[0], log_time_unit(flows[-1].flow), course, steps * len(states))
    config = json.loads(attributes["config"]) | {"seeds": numbers}
    if any(each is not models[0] for each in models):
        config["model"] = [describe(each) for each in models]
    attributes |= {"config": json.dumps(config), "events": json.dumps([[] for _ in states])}
    counts, ends = np.full(len(states), len(times)), np.full(len(states), t1)
    dataset = stacked_dataset(saved, times, counts, final, ends).assign_coords(seed=("member", numbers))
    return Ensemble(dataset.assign_attrs(attributes))
