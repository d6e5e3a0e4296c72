"""`simulate`: the continuous flow of any model on any state."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._check import count, positive
from .._cost import check_run
from .._jax import in_double
from .._lock import locking
from .._shown import shown
from .._xla.programs import bounded
from ..flows import AbstractSpectralFlow, Reduction, is_random
from ..results.trajectory import Trajectory
from ..solver.base import BLOW_UP, FAILED, STOPPED, VANISHED, AbstractMethod
from ..solver.coarsen import Coarsen
from ..solver.methods import runge_kutta, segments_of
from ..states.base import require_one
from ..stop_rule import AbstractStopRule, as_rule
from ..transformer import Transformer, only_transformer
from .choice import check_infinite, chosen_method, reduction
from .ending import end_event, fail, how_ended
from .finish import finished, run_config, trajectory_of
from .noise import check_steps, checked_seed, langevin, refuse
from .refining import Refining, integrate_resolved
from .run import run
from .session import Session
from .single import Single
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
    method: str | AbstractMethod | None = None,
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
            >= 0 where the run should end. It is tested at the end of each step. If it holds there, the time within the step
            from which it holds is located to rounding error, and the run ends there, with an event. A rule that holds for
            less than a step may be missed: use a fixed `dt`. With method "coarsen" only `one_cluster` and `at_most_clusters`.
        method: "tsit5", "dopri5", "dopri8", "bosh3", "heun", or "euler" with a fixed step; or "coarsen", which replaces
            each collapsed cluster by one token, so that exponentially long times cost little (SA and USA with Post-LN). The
            default is "coarsen" for long runs that it supports and that have no stop rule, and "tsit5" for all others.
            With noise: "heun" (half a kick, a Heun step of the drift, half a kick; weak order 2 with `SphereNoise` and
            `EuclideanNoise`, 1 with other kinds; the default) or "euler" (projected Euler–Maruyama, weak order 1).
            Or a method object, as for `solve`: your own `AbstractMethod`, or `Layers(step=1.0)`. It has its own step size
            and random key.
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
            infinite: the run then ends when all tokens have merged, or where a stop rule holds. Each merge is an event
            "merge", at the time when half of its energy step is reached. If clusters start beyond that point, the event is
            halfway through the rest of the step; the detail `energy_fraction` gives the fraction. `traj.log_times` holds
            times too large for a double. With more than 48 tokens, merges during the first collapse are not events.

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
    own, given = (method, method.name) if isinstance(method, AbstractMethod) else (None, method)
    if not isinstance(given, str | None):
        raise ValueError(f"method must be the name of a method, a method object or None, got {shown(method)}")
    if own is not None and not (dt is None and seed is None):
        raise ValueError(
            "dt and seed belong to a method given by its name, got a method object: give them to that object"
        )
    try:
        t1 = float(t1)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"t1 must be a number > 0, got {shown(t1)}") from None
    session = Session(progress, None if checkpoint is None else Path(checkpoint), checkpoint_every)
    random = is_random(state, model)
    controlled = stop_when is not None or dt is not None or merge_tolerance is not None
    name = chosen_method(given, state, model, t1, controlled) if own is None else own.name
    if given is None and name == "coarsen" and save_at is None and math.isfinite(t1):
        save_at = BY_DEFAULT
    check_infinite(model, state, t1, name if name == "coarsen" else given)
    if random:
        seed = checked_seed(seed, model) if own is None else None
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
    if name == "coarsen" and own is None:
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

    layered, tolerance = own is not None and own.discrete, NOISE_TOLERANCE if random else rtol + atol
    small = Reduction(state, model) if layered else reduction(state, model, tolerance, rule)
    if own is not None:
        chosen: AbstractMethod = own
    elif seed is not None:
        chosen = langevin(small, t1, dt, name, seed)
    else:
        chosen = runge_kutta(name, dt)
    options = Options(t1, times, rtol, atol, chosen, rule, max_steps)
    if random or layered:
        return _resolved(model, small, options, session, seed)
    plan = _plan(options, small.state, small.model)
    if isinstance(plan.segments[0].flow, AbstractSpectralFlow):
        return _refined(model, plan, small, session)
    outcome, events = _controlled(plan, session, even=save_at is None or np.ndim(save_at) == 0)
    return trajectory_of(model, small, outcome, options, events)


def _plan(options: Options, state: Any, model: Transformer) -> Plan:
    """Return the plan of a run with these options."""
    parts = segments_of(options.method, state, model, options.t1, options.save_at)
    return Plan(options, parts, packed(parts[0].flow, state))


def _controlled(plan: Plan, session: Session, even: bool) -> tuple[Outcome, list[dict[str, Any]]]:
    """Integrate a flow without noise. Return the outcome, and the event that ended the run early, if any.

    A run that ends in finite time is integrated again with the tolerances that locate this time, and, if few states were saved
    before it, with save times that approach it. `even`: the save times are the default, or evenly spaced.
    """
    outcome, options = integrate(plan, session), plan.options
    status, time = how_ended(outcome, options.method)
    if status in (BLOW_UP, VANISHED) and options.method.fixed_step is None:
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


def _resolved(model: Transformer, small: Reduction, options: Options, session: Session, seed: int | None) -> Trajectory:
    """Run a model with noise, or layers: a density with as many modes as it needs, and the same noise."""
    method = options.method

    def plan_of(state):
        plan = _plan(options, state, small.model)
        if method.random and method.fixed_step is not None:
            check_steps(plan, float(method.fixed_step))
        return plan

    outcome, _ = integrate_resolved(plan_of, small.state, session)
    status, time = how_ended(outcome, method)
    if method.discrete and status != STOPPED:
        time = float(method.fixed_step) * (outcome.steps + 1)  # type: ignore[arg-type]  # the layer that fails
    events = end_event(status, time, options.stop, outcome.flow)
    more: dict[str, Any] = {}
    if seed is not None:
        more = {"dt": float(method.fixed_step), "kappa": np.asarray(model.noise.kappa).tolist(), "seed": seed}  # type: ignore[union-attr,arg-type]
    return trajectory_of(model, small, outcome, options, events, **more)


def _refined(model: Transformer, plan: Plan, small: Reduction, session: Session) -> Trajectory:
    """Run a density, and add modes whenever its spectrum is no longer resolved."""
    schedule, options = Refining(plan, small.model), plan.options
    bar, checkpointer = session.bar("simulating", options.t1), session.checkpointer(plan.identity)
    record = run(schedule, Single(), bar, checkpointer)
    times, found = schedule.states()
    if schedule.status == FAILED:
        fail(options.method, schedule.flow, schedule.t, schedule.y)
    events = end_event(schedule.status, schedule.t, options.stop, schedule.flow)
    rows = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *found), None
    unit, counts = float(schedule.flow.log_time_unit), (record.carry.steps, record.carry.rejected)
    ended = finished(model, small, options, times, rows, schedule.t, rows, events, unit, *counts)
    return ended.trajectory(model, run_config(options, small.names))
