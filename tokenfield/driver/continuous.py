"""`simulate`: the continuous flow of any model on any state."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._check import count, positive
from .._cost import check_run
from .._jax import in_double
from .._lock import locking
from .._shown import shown
from .._xla.compilation import compiled_once
from .._xla.programs import bounded
from ..flows import (
    AbstractFlow,
    AbstractRescaledFlow,
    AbstractSpectralFlow,
    Reduction,
    is_random,
    segments,
)
from ..results.attributes import attributes
from ..results.datasets import to_table
from ..results.describe import describe
from ..results.trajectory import Trajectory
from ..solver.base import BLOW_UP, FAILED, VANISHED
from ..solver.coarsen import Coarsen
from ..solver.methods import runge_kutta
from ..states.base import require_one
from ..stop_rule import AbstractStopRule, as_rule
from ..transformer import Transformer, only_transformer
from .choice import check_infinite, chosen_method, reduction
from .ending import check_end, check_tokens, end_event, fail, how_ended
from .noise import check_steps, checked_seed, langevin, refuse
from .record import Single
from .refining import Refining, integrate_resolved
from .run import run
from .session import Session
from .smooth import Options, Outcome, Plan, integrate, packed
from .times import BY_DEFAULT, save_times, times_towards

RTOL, ATOL = 1e-6, 1e-9
NOISE_TOLERANCE = 1e-6  # allowed error of the velocity under noise, far below the error of a step
BLOW_UP_RTOL = 1e-10  # blow-ups and lengths that reach 0 are located with at most this tolerance


@in_double
@bounded
@locking("checkpoint")
def simulate(
    model: Transformer,
    state: Any,
    t1: float,
    *,
    save_at: int | ArrayLike | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    seed: int | None = None,
    stop_when: AbstractStopRule | Callable | None = None,
    method: str | None = None,
    dt: float | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = 30.0,
    max_steps: int = 1_000_000,
    merge_tolerance: float | None = None,
) -> Trajectory:
    """Solve `d mu/dt + div(mu v) = 0` from time 0 to t1, where v is the model's velocity (FORMULAS §2).

    Args:
        model: the Transformer.
        state: the measure, e.g. `Tokens`.
        t1: end time (for `Unnormalized` with beta > 30, in the unit that its docstring gives).
        save_at: the number of evenly spaced states to save (101 by default, including both ends), or their times. With
            method "coarsen" or an infinite t1, the default is to save the steps of the run. If the run blows up before half of
            the states are saved, the save times approach the time of the blow-up instead.
        rtol, atol: error tolerances of a step: the error of each token, as a Euclidean length, is at most
            `atol + rtol |x_i|`. On the unit sphere this is `atol + rtol`.
        seed: random seed, required for tokens with noise and an error otherwise. The same seed gives the same bits.
        stop_when: a rule such as `one_cluster()`, or a function of the state that returns a bool, or a real number that is
            >= 0 where the run should end. The first time at which it holds is located to rounding error. The run ends there,
            with an event.
        method: "tsit5", "dopri5", "dopri8", "bosh3", "heun", or "euler" with a fixed step; or "coarsen", which replaces
            each collapsed cluster by one token, so that exponentially long times cost little (SA and USA with Post-LN). The
            default is "coarsen" for long runs that it supports and that have no stop rule, and "tsit5" for all others.
            With noise: "heun" (half a kick, a Heun step of the drift, half a kick; weak order 2 with `SphereNoise` and
            `EuclideanNoise`, 1 with other kinds; the default) or "euler" (projected Euler–Maruyama, weak order 1).
        dt: a fixed step size instead of error control. Runs with noise always use one. Their default is t1/100, or, if that
            is shorter, 1/20 of the time scale of the drift and the noise, `min(1/((1 + beta) |drift|), kappa/(d-1))`, where
            |drift| is that of coinciding tokens (1 for SA, e^beta for USA).
        progress: show a progress bar; by default only on a terminal.
        checkpoint: path of a checkpoint file. A run that was killed resumes from it and gives the same bits. It is an error
            if the file belongs to another run (even if only a function in it computes something else), or if a function of
            the run calls back into Python.
        checkpoint_every: seconds between checkpoints.
        max_steps: maximum number of steps.
        merge_tolerance: distance within which "coarsen" merges tokens; 1e-6 or less by default. With "coarsen", t1 may be
            infinite: the run then ends with one cluster. Each merge is an event "merge", at the time when half of its
            energy step is reached. If clusters start beyond that point, the event is halfway through the rest of the step;
            the detail `energy_fraction` gives the fraction. `traj.log_times` holds times too large for a double. With more than
            48 tokens, merges during the first collapse are not events.

    Returns:
        A `Trajectory`. A blow-up in finite time ends the run, with an event "blow_up" that has the time. Under Pre-LN, Peri-LN
        and Mix-LN, a token whose length reaches 0 has no direction and ends the run, with an event "vanished".

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        >>> tkf.simulate(model, tkf.uniform_sphere(256, 3, seed=0), t1=40.0).plot()
        <Sheet size 852x480 with 4 Axes>
    """
    only_transformer(model)
    require_one("simulate", state)
    check_run(model, state, save_at, progress)
    if not isinstance(method, str | None):
        raise ValueError(f"method must be the name of a method or None, got {shown(method)}")
    try:
        t1 = float(t1)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"t1 must be a number > 0, got {shown(t1)}") from None
    session = Session(progress, None if checkpoint is None else Path(checkpoint), checkpoint_every)
    random, given = is_random(state, model), method
    controlled = stop_when is not None or dt is not None or merge_tolerance is not None
    method = chosen_method(given, state, model, t1, controlled)
    if given is None and method == "coarsen" and save_at is None and math.isfinite(t1):
        save_at = BY_DEFAULT
    check_infinite(model, state, t1, method if method == "coarsen" else given)
    if random:
        seed = checked_seed(seed, model)
        refuse(
            stop_when=stop_when is not None,
            merge_tolerance=merge_tolerance is not None,
            rtol=rtol != RTOL,
            atol=atol != ATOL,
        )
    elif seed is not None:
        raise ValueError(f"seed = {shown(seed)} was given, but nothing in this model is random")
    rtol, atol = positive("rtol", rtol, or_zero=True), positive("atol", atol)
    max_steps = count("max_steps", max_steps)
    if method == "coarsen":
        from .coarsen import simulate_coarsened

        if dt is not None:
            raise ValueError("method 'coarsen' takes no dt: its steps follow from rtol and atol")
        t1 = t1 if t1 == math.inf else positive("t1", t1)
        if save_at is not None and math.isinf(t1) and np.ndim(save_at) == 0:
            raise ValueError("save_at must be a list of times when t1 is infinite")
        times = np.zeros(0) if save_at is None else save_times(save_at, t1, state)
        options = Options(t1, times, rtol, atol, Coarsen(runge_kutta("dopri8")), as_rule(stop_when), max_steps)
        return simulate_coarsened(model, state, options, merge_tolerance, session)
    if merge_tolerance is not None:
        raise ValueError(
            f"merge_tolerance = {shown(merge_tolerance)} belongs to method 'coarsen', got method {shown(given)}"
        )
    t1 = positive("t1", t1)
    dt = None if dt is None else positive("dt", dt)
    times = save_times(save_at, t1, state)
    rule = as_rule(stop_when)
    rule = None if rule is None else rule.resolve(model, state)

    small = reduction(state, model, NOISE_TOLERANCE if random else rtol + atol, rule)
    config = {"t1": t1, "method": method, "max_steps": max_steps, "reductions": list(small.names)}
    if random:
        assert seed is not None
        options = Options(t1, times, rtol, atol, langevin(small, t1, dt, method, seed), None, max_steps)
        return _with_noise(model, small, options, session, config, seed)
    plan = _plan(Options(t1, times, rtol, atol, runge_kutta(method, dt), rule, max_steps), small.state, small.model)
    config |= {"rtol": rtol, "atol": atol, "dt": dt, "stop_when": describe(rule)}
    if isinstance(plan.segments[0].flow, AbstractSpectralFlow):
        return _refined(model, plan, small, session, config)
    even = save_at is None or np.ndim(save_at) == 0
    outcome, event = _controlled(plan, session, even)
    return _trajectory(model, outcome, small, event, config)


def _plan(options: Options, state: Any, model: Transformer) -> Plan:
    """Return the plan of a run with these options."""
    parts = segments(state, model)
    return Plan(options, parts, packed(parts[0].flow, state))


def _controlled(plan: Plan, session: Session, even: bool) -> tuple[Outcome, list[dict[str, Any]]]:
    """Integrate a flow without noise. Return the outcome, and the event that ended the run early, if any.

    A run that ends in finite time is integrated again with the tolerances that locate this time, and, if few states were saved
    before it, with save times that approach it. `even`: the save times are the default, or evenly spaced.
    """
    outcome, options = integrate(plan, session), plan.options
    status, time = how_ended(outcome, options.method)
    if status in (BLOW_UP, VANISHED) and options.method.dt is None:  # type: ignore[attr-defined]
        few = even and (options.save_at < time).sum() < len(options.save_at) / 2
        if few or options.rtol + options.atol > BLOW_UP_RTOL:
            times = times_towards(time, options.save_at) if few else options.save_at
            again = tightened(options)._replace(save_at=times)
            outcome = integrate(plan._replace(options=again), Session(session.progress))
            status, time = how_ended(outcome, options.method)
    return outcome, end_event(status, time, options.stop, outcome.flow)


def tightened(options: Options) -> Options:
    """Return the options with tolerances that locate a blow-up."""
    return options._replace(rtol=min(options.rtol, BLOW_UP_RTOL), atol=min(options.atol, 1e-2 * BLOW_UP_RTOL))


def _with_noise(
    model: Transformer, small: Reduction, options: Options, session: Session, config: dict[str, Any], seed: int
) -> Trajectory:
    """Run a model with noise, a random density with as many modes as it needs, and the same noise."""
    dt = float(options.method.dt)  # type: ignore[attr-defined]

    def plan_of(state):
        plan = _plan(options, state, small.model)
        check_steps(plan, dt)
        return plan

    outcome, _ = integrate_resolved(plan_of, small.state, session)
    events = end_event(*how_ended(outcome, options.method), None, outcome.flow)
    about = {"dt": dt, "kappa": float(model.noise.kappa), "seed": seed}  # type: ignore[union-attr]
    return _trajectory(model, outcome, small, events, config | about, about)


def _refined(model: Transformer, plan: Plan, small: Reduction, session: Session, config: dict[str, Any]) -> Trajectory:
    """Run a density, and add modes whenever its spectrum is no longer resolved."""
    schedule, options = Refining(plan, small.model), plan.options
    bar, checkpointer = session.bar("simulating", options.t1), session.checkpointer(plan.identity)
    record = run(schedule, Single(), bar, checkpointer)
    times, found = schedule.states()
    if schedule.status == FAILED:
        fail(options.method, schedule.flow, schedule.t, schedule.y)
    events = end_event(schedule.status, schedule.t, options.stop, schedule.flow)
    check_end(schedule.t, options.t1, events)
    unit = float(schedule.flow.log_time_unit)
    states = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *found)
    steps = int(record.carry.steps), int(record.carry.rejected)
    return Trajectory(to_table(states, times).assign_attrs(attributes(model, config, events, unit, *steps)))


def _trajectory(
    model: Transformer,
    outcome: Outcome,
    small: Reduction,
    events: list[dict],
    config: dict[str, Any],
    about: dict[str, Any] | None = None,
) -> Trajectory:
    """Return the run as labeled data, in the coordinates of the given state; `about` is recorded as attributes too."""
    flow, times, found = outcome.flow, outcome.times, outcome.saved
    # Unpack whole buffers, whose shape does not depend on the run, and slice them in NumPy: this avoids recompilation.
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[: times.size], unpack_all(flow, outcome.saved))
    if not times.size or times[-1] != outcome.t:  # the run ended between save times
        times = np.append(times, outcome.t)
        join = lambda buffer, leaf: np.concatenate([buffer, np.asarray(leaf)[None]])  # noqa: E731
        states = jax.tree.map(join, states, eqx.filter_jit(flow.unpack)(outcome.y))
        found = jax.tree.map(lambda buffer, leaf: join(buffer[: times.size - 1], leaf), found, outcome.y)
    states = small.lift(states)
    check_end(outcome.t, config["t1"], events)
    check_tokens(model, states)
    table = to_table(states, times)
    if isinstance(flow, AbstractRescaledFlow):
        cut = jax.tree.map(lambda leaf: leaf[: times.size], found)
        scaled, log_scale = _scaled_all(flow, jnp.asarray(times, float), cut)
        scaled = small.lift(eqx.tree_at(lambda s: s.x, states, np.asarray(scaled))).x
        table = table.assign(scaled=(table["x"].dims, scaled), log_scale=("time", log_scale))
    unit = float(flow.log_time_unit)
    described = attributes(model, config, events, unit, outcome.steps, outcome.rejected, **(about or {}))
    return Trajectory(table.assign_attrs(described))


@compiled_once
def unpack_all(flow: AbstractFlow, saved: Any) -> Any:
    """Return the states that a buffer of unknowns represents."""
    return jax.vmap(flow.unpack)(saved)


@eqx.filter_jit
def _scaled_all(flow: Any, times: Any, saved: Any) -> Any:
    return jax.vmap(flow.scaled)(times, saved)
