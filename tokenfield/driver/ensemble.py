"""`simulate_many`: an ensemble of initial states (and models) of one shape, batched in one compiled program."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._check import count, items, positive
from .._cost import check_run
from .._jax import in_double
from .._lock import locking
from .._shown import shown
from .._xla.programs import bounded
from ..flows import AbstractNoisyFlow, Reduction, is_random, refined, segments
from ..results.ensemble import Ensemble
from ..results.finished import ensemble_dataset, finished_runs
from ..results.trajectory import Trajectory
from ..solver.base import FAILED, UNRESOLVED
from ..solver.langevin import Langevin, default_dt
from ..solver.methods import checked_method, runge_kutta
from ..stop_rule import AbstractStopRule, as_rule
from ..transformer import Transformer, only_transformer
from .batch import EnsembleOutcome, outcome_of, run_members, solve_many
from .choice import chosen_method, reduction, reductions
from .continuous import ATOL, NOISE_TOLERANCE, RTOL, simulate
from .ending import end_event, fail
from .finish import finished, run_config
from .members import flows_of, last_rows, log_time_unit, rows_of, shared_rule, stack
from .noise import check_steps, checked_seed, refuse
from .session import Session
from .smooth import Options, Plan
from .times import save_times


@in_double
@bounded
@locking("checkpoint")
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
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = 30.0,
    max_steps: int = 1_000_000,
) -> Ensemble:
    """Simulate an ensemble of states of one kind and size. Steps, stop times and blow-ups are separate for each member.

    Args:
        model: one Transformer for all members, or one per state (these may differ only in the values of their arrays).
        states: the initial states, e.g. a list of `Gaussian` of one dimension; with seeds, one state for all members also works.
        seeds: one random seed per member, for tokens with noise.
        t1, save_at, rtol, atol, stop_when, method, progress, max_steps: as for `simulate`.
        checkpoint, checkpoint_every: as for `simulate`; one file for the ensemble, or one for each member where members run
            one by one (those that are coarsened, use a series, or are densities that need more modes).
        dt: the fixed step size of runs with noise, as for `simulate`; by default that of each member follows from its own run.

    Returns:
        An `Ensemble`: the first axis of `.dataset` is `member`, and `ensemble[k]` is the `Trajectory` of member k.

    Example:
        >>> import tokenfield as tkf
        >>> starts = [tkf.Equiangular(rho, n=32) for rho in (0.0, 0.3, 0.6)]
        >>> tkf.simulate_many(tkf.Transformer(tkf.Softmax(beta=4.0), tkf.PostLN()), starts, t1=5.0)
        Ensemble(3 runs of Equiangular; t to 5)
    """
    if isinstance(states, eqx.Module):
        if seeds is None:
            raise ValueError("states must be a list; a single state is allowed only with seeds and a model with noise")
        states = [states] * np.size(seeds)
    states = list(items("states", states, "states"))
    if not states:
        raise ValueError("states must hold at least one state, got none")
    check_run(model, states[0], save_at, progress)
    models = [only_transformer(each) for each in (model if isinstance(model, Iterable) else [model] * len(states))]
    if len(models) != len(states):
        raise ValueError(
            f"model must be one Transformer or one for each of the {len(states)} states, got {len(models)}"
        )
    infinite = isinstance(t1, (float, np.floating)) and t1 == math.inf
    if infinite and (save_at is None or np.ndim(save_at) == 0):
        raise ValueError("save_at must be a list of times, which members share, when t1 is infinite")
    t1 = math.inf if infinite else positive("t1", t1)
    session = Session(progress, None if checkpoint is None else Path(checkpoint), checkpoint_every)
    if any(is_random(state, each) for state, each in zip(states, models, strict=True)):
        refuse(stop_when=stop_when is not None, rtol=rtol != RTOL, atol=atol != ATOL)
        times, numbers = save_times(save_at, t1, states), _checked_seeds(seeds, models[0], len(states))
        method, max_steps = checked_method(method, states[0], models[0]), count("max_steps", max_steps)
        dt = None if dt is None else positive("dt", dt)
        reduced, y0, steps_of = _noisy_members(models, states, t1, dt)
        given = {"save_at": times, "method": method, "dt": dt, "max_steps": max_steps}
        if any("series" in each.names for each in reduced) and any(each is not models[0] for each in models):
            return _noisy_one_by_one(models, states, t1, given, session, numbers)  # series of different degrees
        keys = jax.vmap(jax.random.key)(jnp.asarray(numbers))
        steps = Langevin(method, jnp.asarray(steps_of), keys)
        options = Options(t1, times, RTOL, ATOL, steps, None, max_steps)
        flows = flows_of([each.state for each in reduced], [each.model for each in reduced])
        plan = Plan(options, flows, y0, len(states))
        return _simulate_noisy(models, states, reduced, plan, numbers, session, given)
    if seeds is not None or dt is not None:
        raise ValueError(
            f"{'seeds' if dt is None else 'dt'} is for models with noise, but nothing in this model is random"
        )
    described = model if isinstance(model, Transformer) else models
    times = save_times(save_at, t1, states)
    given = {"rtol": rtol, "atol": atol, "max_steps": max_steps, "save_at": times, "method": method}
    given |= {"stop_when": stop_when}
    pairs = zip(states, models, strict=True)
    methods = [chosen_method(method, state, each, t1, stop_when is not None) for state, each in pairs]
    method = "coarsen" if "coarsen" in methods else methods[0]
    if method == "coarsen" or infinite:
        return _one_by_one(models, described, states, t1, given, session)
    rtol, atol = positive("rtol", rtol, or_zero=True), positive("atol", atol)
    chosen, max_steps = runge_kutta(method), count("max_steps", max_steps)
    rule = shared_rule(as_rule(stop_when), models, states)
    reduced = reductions(states, models, rtol + atol, rule)
    # With series, members may need different degrees, and batching large runs saves nothing.
    options, ends = Options(t1, times, rtol, atol, chosen, rule, max_steps), None
    if not any("series" in each.names for each in reduced):
        ends = solve_many(reduced, options, None, session)
    if ends is None or _needs_more_modes(states, ends.status):
        return _one_by_one(models, described, states, t1, given | {"method": method}, session)
    return _ensemble(models, described, ends, reduced, options, run_config(options, ()))


def _needs_more_modes(states: Sequence[Any], status: np.ndarray) -> bool:
    """Return True if some member is a density whose spectrum is no longer resolved, although it can have more modes."""
    return any(refined(states[k]) is not None for k in np.flatnonzero(np.asarray(status) == UNRESOLVED).tolist())


def _one_by_one(
    models: list[Transformer],
    described: Transformer | list[Transformer],
    states: list[Any],
    t1: float,
    options: dict[str, Any],
    session: Session,
    seeds: Sequence[int] | None = None,
) -> Ensemble:
    """Run each member with `simulate`, which coarsens it, uses a series or adds modes. Its numbers do not depend on the others.

    The checkpoint of each member is beside the path of the ensemble's.
    """
    runs: list[Trajectory] = []
    with session.bar("simulating", len(states), "runs") as bar:
        for each, state in zip(models, states, strict=True):
            own = session.of_part(len(runs))
            options |= {"progress": False, "checkpoint": own.checkpoint, "checkpoint_every": own.every}
            options |= {} if seeds is None else {"seed": seeds[len(runs)]}
            runs.append(simulate(each, state, t1, **options))
            bar.update(len(runs))
    config = {name: value for name, value in runs[0].config.items() if name not in ("model", "seed", "key")}
    config |= {name: [run.config[name] for run in runs] for name in ("method", "reductions")}
    config |= {} if seeds is None else {"seeds": list(seeds)}
    about = {} if seeds is None else {name: _one_or_all([run.config[name] for run in runs]) for name in ("dt", "kappa")}
    return Ensemble(ensemble_dataset(finished_runs(runs), options["save_at"], described, config, **about))


def _ensemble(
    models: list[Transformer],
    described: Transformer | list[Transformer],
    ends: EnsembleOutcome,
    reduced: Sequence[Reduction],
    options: Options,
    config: dict[str, Any],
    **more: Any,
) -> Ensemble:
    """Return all members, in the coordinates of their initial states; `more` are settings that are attributes too."""
    rows, last, unit = (
        rows_of(ends.flow, options.save_at, ends.saved),
        last_rows(ends.flow, ends.t, ends.y),
        log_time_unit(ends.flow),
    )
    rows, last = jax.tree.map(np.asarray, (rows, last))
    runs = []
    for k, (model, small) in enumerate(zip(models, reduced, strict=True)):
        own, end = jax.tree.map(lambda leaf, k=k: leaf[k], (rows, last))
        t, times = float(ends.t[k]), options.save_at[: ends.counts[k]]
        events = end_event(int(ends.status[k]), t, options.stop, ends.flow)
        counts = ends.steps[k], ends.rejected[k]
        runs.append(finished(model, small, options, times, own, t, end, events, unit, *counts))
    config |= {"reductions": sorted({name for each in reduced for name in each.names})}
    return Ensemble(ensemble_dataset(runs, options.save_at, described, config, **more))


def _checked_seeds(seeds: Any, model: Transformer, members: int) -> list[int]:
    """Return the seeds of all members."""
    if seeds is None:
        checked_seed(None, model, "seeds")
    if np.ndim(seeds) != 1 or len(np.asarray(seeds)) != members:
        raise ValueError(f"seeds must hold one seed for each of the {members} members, got {shown(seeds)}")
    return [checked_seed(seed, model, "seeds") for seed in np.asarray(seeds).tolist()]


def _noisy_members(
    models: list[Transformer], states: list[Any], t1: float, dt: float | None
) -> tuple[list[Reduction], Any, list[float]]:
    """Return the reductions of members with noise, their stacked unknowns, and their step sizes: by default, each its own."""
    made: dict[tuple[int, int], tuple[Reduction, Any, float]] = {}
    pairs = [(id(state), id(each)) for state, each in zip(states, models, strict=True)]
    for pair, state, each in zip(pairs, states, models, strict=True):
        if pair not in made:
            small = reduction(state, each, NOISE_TOLERANCE)
            flow = segments(small.state, small.model)[0].flow
            if not isinstance(flow, AbstractNoisyFlow):
                raise ValueError("model: either all models must have noise or none")
            step = float(default_dt(flow, small.state, t1)) if dt is None else dt
            made[pair] = small, flow.retract(flow.pack(small.state)), step
    reduced, starts, steps_of = zip(*(made[pair] for pair in pairs), strict=True)
    return list(reduced), stack(starts), list(steps_of)


def _simulate_noisy(
    models: list[Transformer],
    states: list[Any],
    reduced: list[Reduction],
    plan: Plan,
    seeds: list[int],
    session: Session,
    given: dict[str, Any],
) -> Ensemble:
    """Run members with noise, each with its own step size and random key; `given` are the options for `simulate`."""
    options, steps = plan.options, plan.options.method
    assert isinstance(steps, Langevin)
    dt = np.asarray(steps.dt)
    check_steps(plan, float(dt.min()))
    ends = run_members(plan._replace(options=options._replace(max_steps=options.max_steps + 1)), None, session)
    status = np.asarray(ends.carry.status)
    if (status == FAILED).any():
        first = int(np.argmax(status == FAILED))
        alone = Langevin(steps.scheme, steps.dt[first], steps.key[first])
        fail(alone, plan.segments[0].flow, float(ends.carry.t[first]), ends.carry.y)
    if _needs_more_modes(states, status):
        return _noisy_one_by_one(models, states, options.t1, given, session, seeds)
    kappas = [np.asarray(each.noise.kappa).tolist() for each in models if each.noise is not None]
    about = {"dt": _one_or_all(dt.tolist()), "kappa": _one_or_all(kappas)}
    config = {"t1": options.t1, "method": steps.scheme, "max_steps": options.max_steps, "seeds": seeds}
    found = outcome_of(plan.segments, ends, status)
    many = _ensemble(models, _one_or_all(models), found, reduced, options, config, **about)
    return Ensemble(many.dataset.assign_coords(seed=("member", seeds)))


def _noisy_one_by_one(
    models: list[Transformer],
    states: list[Any],
    t1: float,
    given: dict[str, Any],
    session: Session,
    seeds: list[int],
) -> Ensemble:
    """Run each member with `simulate` and its seed."""
    runs = _one_by_one(models, _one_or_all(models), states, t1, given, session, seeds)
    return Ensemble(runs.dataset.assign_coords(seed=("member", seeds)))


def _one_or_all(settings: list[Any]) -> Any:
    """Return a setting that is the same for all members once, otherwise the list."""
    first = settings[0]
    same = all(each is first or (isinstance(each, (float, list)) and each == first) for each in settings)
    return first if same else settings
