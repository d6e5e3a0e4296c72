"""`simulate(..., method="coarsen")`: follow clusters through exponentially long waits; return a trajectory of all tokens."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..flows import reduced, segments
from ..flows.base import admit
from ..flows.coarse import coarse_parameters
from ..flows.tokens import check
from ..results.attributes import attributes
from ..results.datasets import to_dataset
from ..results.describe import describe
from ..results.trajectory import Trajectory
from ..solver.methods import runge_kutta
from ..states import Tokens
from ..transformer import Transformer
from .checkpoint import Keeper
from .coarsen_checkpoint import Kept
from .coarsening import Coarsening, Epoch, History, Record, follow
from .collapse import FEW, collapse
from .ending import check_end, check_lengths
from .fingerprint import Program, fingerprint
from .merges import merge_errors, merge_events
from .progress import Progress
from .run import packed, right_hand_side

MOST_RECORDS = 400
LARGEST_LOG = 690.0


def simulate_waiting(
    model: Transformer,
    state: Tokens,
    t1: float,
    save_at: np.ndarray | None,
    rtol: float,
    atol: float,
    delta: float | None,
    clusters: int,
    stop: Any,
    progress: bool | None,
    max_steps: int,
    path: Path | None,
    every: float,
) -> Trajectory:
    """Run `simulate` with method "coarsen"; see there."""
    if not isinstance(state, Tokens):
        raise ValueError(f"method 'coarsen' moves Tokens, got {type(state).__name__}")
    beta, log_scale, normalised = coarse_parameters(model)
    check(state, model)
    admit(state, model)
    state = state.normalized()
    delta = min(1e-6, 1e-3 / math.sqrt(float(beta))) if delta is None else delta
    if float(beta) * delta**2 > 1e-2:
        raise ValueError(
            f"merge_tolerance = {delta:g} would merge clusters that are still apart at beta = {float(beta):g}: it must be "
            f"at most {0.1 / math.sqrt(float(beta)):.3g}"
        )
    tolerance = 1e-2 * min(rtol + atol, 1e-6)  # on the sphere lengths are 1
    plain = 1e-2 * tolerance if state.n > FEW else 0.0
    small, small_model, names, lift = reduced(state, model, plain)
    targets = np.zeros(0) if save_at is None else save_at[save_at > 0]
    coarse = Coarsening(beta, log_scale, normalised, runge_kutta("dopri8"), tolerance, delta, 0)
    early: list[Record] = []
    epochs, steps = [Epoch(np.asarray(small.weights), np.arange(small.n))], 0
    numbers = t1, targets, tolerance, delta, clusters, max_steps
    kept = Kept(Keeper(path, lambda: _identity(small_model, small, numbers), every))
    with Progress(progress, "coarsening", max(state.n - clusters, 1)) as bar, kept:
        if small.n > FEW:
            unit = math.exp(float(log_scale))
            early, epochs, steps = collapse(
                small_model, small, unit, t1, targets, runge_kutta("dopri8"), plain, delta, max_steps, *kept.collapsing
            )
        start = early[-1] if early else Record(-math.inf, 0, np.asarray(small.x))
        tell = lambda log_t, count: bar.update(state.n - count, 0.0)  # noqa: E731
        options = (start.x, *epochs[-1], start.log_t, math.log(t1) if math.isfinite(t1) else math.inf)
        with np.errstate(divide="ignore"):
            wanted = np.log(targets)
        history = follow(coarse, *options, wanted, clusters, max_steps, tell, *kept.following)
        loose = coarse._replace(tolerance=100 * tolerance, delta=3 * delta)
        rough = follow(loose, *options, np.zeros(0), clusters, max_steps)
    errors = merge_errors(history.merges, rough.merges, 10 * tolerance + 10 * (1 + float(beta)) * plain)
    config = {"rtol": rtol, "atol": atol, "method": "coarsen", "merge_tolerance": delta, "max_steps": max_steps}
    config["reductions"] = [*names, "coarsening"]
    return _trajectory(model, state, history, early, epochs, errors, lift, t1, save_at, stop, config, steps)


def _identity(model: Transformer, state: Tokens, numbers: tuple[Any, ...]) -> str:
    programs = [
        Program("model", right_hand_side, (part.flow, jnp.zeros(()), packed(part.flow, state)))
        for part in segments(state, model)
    ]
    return fingerprint(model, state, numbers, programs=programs)


def _trajectory(
    model: Transformer,
    state: Tokens,
    history: History,
    early: list[Record],
    first: list[Epoch],
    errors: list[float],
    lift: Any,
    t1: float,
    save_at: np.ndarray | None,
    stop: Any,
    config: dict[str, Any],
    steps: int,
) -> Trajectory:
    offset = len(first) - 1
    records = [*early, *(r._replace(epoch=r.epoch + offset) for r in history.records[1 if early else 0 :])]
    epochs = [*first, *history.epochs[1:]]
    if history.ended != "time" and stop is None:  # nothing moves anymore
        last = records[-1]
        later = (
            [] if save_at is None else [float(value) for value in np.log(save_at[save_at > 0]) if value > last.log_t]
        )
        if math.isfinite(t1) and max([last.log_t, *later]) < math.log(t1):
            later.append(math.log(t1))
        records += [last._replace(log_t=value) for value in later]
    chosen = _choose(records, save_at)
    labels = np.stack([epochs[r.epoch].labels for r in chosen])
    x = np.stack([r.x[label] for r, label in zip(chosen, labels, strict=True)])
    log_t = np.array([r.log_t for r in chosen])
    repeat = lambda a: np.broadcast_to(np.asarray(a), (len(chosen), state.n))  # noqa: E731
    everything = x, repeat(state.weights), repeat(state.positions)
    states = lift(eqx.tree_at(lambda s: (s.x, s.weights, s.positions), state, everything))
    shift = 0.0 if log_t[-1] <= LARGEST_LOG else float(math.ceil(log_t[-1]))
    base = -float(model.attention.log_unit) + 0.0
    asked = [float(t) for t in (t1, *([] if save_at is None else save_at)) if 0 < t < math.inf]
    exact = {float(log(t)): t for t in asked for log in (np.log, math.log)} if shift == 0 else {}  # e^(log t) is not t

    def in_unit(value: float) -> float:
        return exact[value] if value in exact else math.exp(value - shift) if value > -math.inf else 0.0

    events = merge_events(history.merges, errors, history.epochs[0].weights, base, shift)
    if history.ended == "stationary":
        words = "unstable equilibrium: the forces balance; to leave it, start from tokenfield.perturbed(state, size=1e-6, seed=0)"
        events.append({"kind": "stationary", "time": in_unit(log_t[-1]), "detail": {"message": words}})
    elif history.ended != "time" and (stop is not None or not math.isfinite(t1)):
        events.append({"kind": history.ended, "time": in_unit(log_t[-1])})
    reached = math.exp(min(log_t[-1] - math.log(t1), 0.0)) if math.isfinite(t1) else 0.0
    check_end(reached, 1.0, [event for event in events if event["kind"] != "merge"])
    check_lengths(model, states)
    config |= {"t1": t1 if math.isfinite(t1) else None, "stop_when": describe(stop)}
    described = attributes(model, config, events, base + shift, history.steps + steps)
    dataset = to_dataset(states, np.array([in_unit(value) for value in log_t]))
    return Trajectory(
        dataset.assign(log_time=("time", log_t + base), cluster=(("time", "token"), labels)).assign_attrs(described)
    )


def _choose(records: list[Record], save_at: np.ndarray | None) -> list[Record]:
    """Return the records to save: those at `save_at`, or by default a few hundred that include both sides of every merge."""
    if save_at is not None:
        with np.errstate(divide="ignore"):
            wanted = np.log(save_at)
        place = {record.log_t: k for k, record in enumerate(records)}
        found = [place[value] for value in wanted if value in place]
        return [records[k] for k in [*found, *([] if found and found[-1] == len(records) - 1 else [len(records) - 1])]]
    last = len(records) - 1
    kept = set(np.linspace(0, last, min(len(records), MOST_RECORDS)).round().astype(int).tolist())
    kept |= {k for k in range(last) if records[k].epoch != records[k + 1].epoch}
    kept |= {k + 1 for k in range(last) if records[k].epoch != records[k + 1].epoch}
    return [records[k] for k in sorted(kept)]
