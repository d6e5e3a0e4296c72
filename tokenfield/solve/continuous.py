"""`simulate`: the continuous flow of any model on any state."""

import json
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

from .._check import as_float, count, positive
from ..flows import AbstractFlow, is_random, prepare, segments
from ..results.datasets import to_dataset
from ..results.describe import describe
from ..results.provenance import provenance
from ..results.trajectory import Trajectory
from ..transformer import Transformer, only_transformer
from . import loop
from .refining import Refined, run_refined
from .run import Outcome, Plan, SolverError, packed, run
from .steppers import stepper
from .stochastic import checked_method, checked_seed, refuse, simulate_noisy
from .stop import AbstractStopRule, as_rule
from .waiting import helps, simulate_waiting

RTOL, ATOL = 1e-6, 1e-9
BLOW_UP_RTOL = 1e-10  # blow-up times are located at this tolerance or a tighter one


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
    """Move a state by a model from time 0 to t1: `d mu/dt + div(mu v) = 0`, v the model's velocity (FORMULAS §2).

    Args:
        model: the Transformer.
        state: the measure, e.g. `Tokens`.
        t1: end time, in plain units (for `Unnormalized` with beta > 30 in the units that its docstring says).
        save_at: how many evenly spaced states to keep (101 by default, both ends included), or their times. A run with
            method "coarsen" or an infinite t1 keeps its own steps by default.
        rtol, atol: allowed error of a step, for each token in the Euclidean length: `atol + rtol |x_i|`. On the
            sphere, where `|x_i| = 1`, that is simply `atol + rtol`.
        seed: for random models (tokens with noise), which need one: same seed, same bits. Refused where nothing is random.
        stop_when: a rule such as `one_cluster()`, or any function of the state that gives a bool. The moment at
            which it first holds is found to rounding, and is the last state and an event.
        method: "tsit5", "dopri5", "dopri8", "bosh3", "heun", or "euler" with a fixed step; or "coarsen", which merges
            collapsed clusters and follows the others through exponentially long waits (SA and USA with Post-LN). By
            default "coarsen" for long runs that it can do and that no rule stops, "tsit5" for all others. With noise "heun"
            (half a kick, Heun's step of the drift, half a kick; weak order 2 with `SphereNoise` and `EuclideanNoise`, 1
            with other kinds) or "euler" (projected Euler–Maruyama, weak order 1).
        dt: a fixed step in place of error control. Runs with noise always have one: by default 1/100 of t1 or, if less,
            1/20 of the time in which the drift or the noise acts, `min(1/((1 + beta) |drift|), kappa/(d-1))` with the
            drift of coinciding tokens (1 for SA, e^beta for USA).
        progress: show a progress bar; by default on a terminal only.
        checkpoint: a file to keep the run in. A run that was killed goes on from there to the same bits.
        checkpoint_every: seconds between checkpoints.
        max_steps: give up after so many steps.
        merge_tolerance: distance within which "coarsen" takes tokens for one; 1e-6 or less by default. With "coarsen"
            t1 may be infinite: the run ends with one cluster. Each merge is an event "merge" with its time, half-way up
            the step of the energy, and `traj.log_times` holds times beyond any double.

    Returns:
        A `Trajectory`. A blow-up in finite time ends it and is an event "blow_up" with its time.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        >>> tkf.simulate(model, tkf.uniform_sphere(256, 3, seed=0), t1=40.0).plot()
    """
    only_transformer(model)
    path = None if checkpoint is None else Path(checkpoint)
    if is_random(state, model):
        seed = checked_seed(seed, model)
        refuse(
            stop_when=stop_when is not None,
            merge_tolerance=merge_tolerance is not None,
            rtol=rtol != RTOL,
            atol=atol != ATOL,
        )
        method, t1, dt = checked_method(method), positive("t1", t1), None if dt is None else positive("dt", dt)
        times, max_steps = save_times(save_at, t1), count("max_steps", max_steps)
        return simulate_noisy(model, state, t1, times, dt, seed, method, max_steps, progress, path, checkpoint_every)
    if seed is not None:
        raise ValueError(f"seed = {seed!r} was given, but nothing in this model is random")
    plain = stop_when is None and dt is None and merge_tolerance is None
    if method is None and plain and helps(model, state, t1):
        method = "coarsen"
        save_at = 101 if save_at is None and math.isfinite(t1) else save_at
    if method == "coarsen":
        if dt is not None:
            raise ValueError("method 'coarsen' takes no dt: its steps follow from the tolerances")
        rtol, atol, max_steps = (
            positive("rtol", rtol, or_zero=True),
            positive("atol", atol),
            count("max_steps", max_steps),
        )
        t1, wanted, delta = _checked(t1, save_at, stop_when, merge_tolerance)
        clusters = 1 if stop_when is None else stop_when.k  # type: ignore[union-attr]
        what = model, state, t1, wanted, rtol, atol, delta, clusters, stop_when
        return simulate_waiting(*what, progress, max_steps, path, checkpoint_every)
    if merge_tolerance is not None:
        raise ValueError(f"merge_tolerance = {merge_tolerance!r} belongs to method 'coarsen', got method {method!r}")
    t1 = positive("t1", t1)
    rtol, atol = positive("rtol", rtol, or_zero=True), positive("atol", atol)
    dt = None if dt is None else positive("dt", dt)
    times = save_times(save_at, t1)
    rule = as_rule(stop_when)
    rule = None if rule is None else rule.resolve(model, state)

    small, small_model, lift = prepare(state, model, rtol + atol)
    parts = segments(small, small_model)
    y0 = packed(parts[0].flow, small)
    stiff = hasattr(parts[0].flow, "decay")
    method = ("lawson" if stiff else "tsit5") if method is None else method
    chosen = stepper(method)
    if dt is None and not chosen.adaptive:
        raise ValueError(f"method {method!r} has no error control: give a fixed step dt")
    if method == "lawson" and not stiff:
        raise ValueError(f"method 'lawson' is for densities, got {type(state).__name__}")
    max_steps = count("max_steps", max_steps)
    plan = Plan(parts, y0, t1, times, rtol, atol, dt, chosen, rule, max_steps)
    config = {
        "model": describe(model),
        "t1": t1,
        "rtol": rtol,
        "atol": atol,
        "method": method,
        "dt": dt,
        "stop_when": describe(rule),
        "max_steps": max_steps,
    }
    if hasattr(parts[0].flow, "finer"):
        if checkpoint is not None:
            raise ValueError("checkpoint is not for densities: their runs take seconds")
        return _refined(run_refined(plan, small_model, _unpack_all, progress), rule, config)
    outcome = run(plan, progress, path, checkpoint_every)
    if outcome.status == loop.UNDERFLOW:
        confirm_blow_up(outcome.flow, outcome.t, outcome.y)
        if dt is None and rtol + atol > BLOW_UP_RTOL:
            plan = plan._replace(rtol=BLOW_UP_RTOL, atol=min(atol, 1e-2 * BLOW_UP_RTOL))
            outcome = run(plan, progress, None, checkpoint_every)
    return _trajectory(outcome, lift, rule, config)


def _checked(
    t1: float, save_at: Any, stop_when: Any, merge_tolerance: float | None
) -> tuple[float, np.ndarray | None, float | None]:
    """End, save times and merge tolerance of a run that merges clusters."""
    if stop_when is not None and not hasattr(stop_when, "k"):
        raise ValueError("method 'coarsen' stops at one_cluster() or at_most_clusters(k) only")
    t1 = math.inf if t1 == math.inf else positive("t1", t1)
    if save_at is not None and math.isinf(t1) and np.ndim(save_at) == 0:
        raise ValueError("save_at must be a list of times when t1 is infinite")
    times = None if save_at is None else save_times(save_at, t1)
    return t1, times, None if merge_tolerance is None else positive("merge_tolerance", merge_tolerance)


def save_times(save_at: int | ArrayLike | None, t1: float) -> np.ndarray:
    if save_at is None or isinstance(save_at, (int, np.integer)):
        return np.linspace(0, t1, count("save_at", 101 if save_at is None else save_at, 2))
    times = np.asarray(as_float("save_at", save_at), float)
    if times.ndim != 1 or times.size == 0 or not np.isfinite(times).all():
        raise ValueError(f"save_at must be a number of times or a list of finite times, got {save_at!r}")
    if (np.diff(times) <= 0).any() or times[0] < 0 or times[-1] > t1:
        raise ValueError(f"save_at must increase within [0, t1] = [0, {t1:g}], got {times[0]:g} to {times[-1]:g}")
    return times


def confirm_blow_up(flow: AbstractFlow, t: float, y: Any) -> None:
    """Raise unless the smallest step failed because the velocity grows without bound."""
    velocity = eqx.filter_jit(flow.velocity)(jnp.asarray(t), y)
    smallest = jax.tree.map(lambda leaf: leaf * loop.SMALLEST_STEP * t, velocity)
    change = float(flow.error_size(smallest, y, y, 1.0, 1e-300))
    if not change >= loop.SMALLEST_CHANGE:
        raise SolverError(
            f"no step succeeds at t = {t:.6g}, where the velocity is not a number: either numbers leave the "
            "range of double precision (stop earlier, or follow z = e^(-tV) x with norm=Rescaled()), or a function of time "
            "such as A(t) gives none, or an inner iteration such as Sinkhorn's did not converge (allow more max_iterations)"
        )


def _refined(found: Refined, rule: AbstractStopRule | None, config: dict) -> Trajectory:
    events: list[dict[str, Any]] = []
    outcome = found.outcome
    if found.exhausted:
        words = (
            f"the density is concentrating: {found.states[-1].modes} modes no longer resolve it. Without noise it tends to "
            "Dirac masses; go on with tokens, e.g. traj.final.sample(n, seed)"
        )
        events.append({"kind": "resolution", "time": found.t, "detail": {"message": words}})
    elif outcome.status == loop.STOPPED and rule is not None:
        events.append({"kind": rule.kind, "time": found.t})
    if outcome.status == loop.UNDERFLOW:
        raise SolverError(f"no step succeeds at t = {found.t:.6g}")
    attributes = {
        **provenance(),
        "config": json.dumps(config),
        "events": json.dumps(events),
        "log_time_unit": float(outcome.flow.log_time_unit) + 0.0,
        "steps": found.steps,
        "rejected_steps": outcome.rejected,
    }
    states = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *found.states)
    return Trajectory(to_dataset(states, found.times).assign_attrs(attributes))


def _trajectory(outcome: Outcome, lift: Callable, rule: AbstractStopRule | None, config: dict) -> Trajectory:
    flow, times = outcome.flow, outcome.times
    # Unpacked as whole buffers, whose shape does not depend on how the run went, and cut in NumPy.
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[: times.size], _unpack_all(flow, outcome.saved))
    if not times.size or times[-1] != outcome.t:  # the run ended between save times
        times = np.append(times, outcome.t)
        join = lambda buffer, leaf: np.concatenate([buffer, np.asarray(leaf)[None]])  # noqa: E731
        states = jax.tree.map(join, states, eqx.filter_jit(flow.unpack)(outcome.y))
    states = lift(states)
    events = []
    if outcome.status == loop.STOPPED and rule is not None:
        events.append({"kind": rule.kind, "time": outcome.t})
    if outcome.status == loop.UNDERFLOW:
        events.append({"kind": "blow_up", "time": outcome.t})
    attributes = {
        **provenance(),
        "config": json.dumps(config),
        "events": json.dumps(events),
        "log_time_unit": float(flow.log_time_unit) + 0.0,
        "steps": outcome.steps,
        "rejected_steps": outcome.rejected,
    }
    return Trajectory(to_dataset(states, times).assign_attrs(attributes))


@eqx.filter_jit
def _unpack_all(flow: AbstractFlow, saved: Any) -> Any:
    return jax.vmap(flow.unpack)(saved)
