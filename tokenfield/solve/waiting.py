"""`simulate(..., method="coarsen")`: clusters through exponentially long waits, as a trajectory of all tokens."""

import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from ..flows import prepare
from ..flows.base import admit
from ..flows.coarse import coarse_obstacle, coarse_parameters
from ..flows.tokens import check
from ..results.datasets import to_dataset
from ..results.describe import describe
from ..results.provenance import provenance
from ..results.trajectory import Trajectory
from ..states import Tokens
from ..transformer import Transformer
from .checkpoint import Keeper, fingerprint
from .coarsening import Coarsening, Epoch, History, Merge, Record, follow
from .collapse import FEW, collapse
from .kept import Kept
from .progress import Progress
from .steppers import stepper

MOST_RECORDS = 400
LARGEST_LOG = 690.0
LONG = 500.0  # in units of the time in which a cluster contracts: longer runs are coarsened without being asked


def helps(model: Transformer, state: Any, t1: float) -> bool:
    """True when a run is long enough that clusters, once collapsed, are better followed than their tokens."""
    if not isinstance(t1, (int, float)) or not isinstance(state, Tokens) or coarse_obstacle(model) is not None:
        return False
    return t1 > LONG * math.exp(float(coarse_parameters(model)[1]))


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
    """See `simulate`."""
    if not isinstance(state, Tokens):
        raise ValueError(f"method 'coarsen' moves Tokens, got {type(state).__name__}")
    beta, log_scale, normalised = coarse_parameters(model)
    check(state, model)
    admit(state, model)
    delta = min(1e-6, 1e-3 / math.sqrt(float(beta))) if delta is None else delta
    if float(beta) * delta**2 > 1e-2:
        raise ValueError(
            f"merge_tolerance = {delta:g} would merge clusters that are still apart at beta = {float(beta):g}: it must be "
            f"at most {0.1 / math.sqrt(float(beta)):.3g}"
        )
    tolerance = 1e-2 * min(rtol + atol, 1e-6)  # on the sphere lengths are 1
    plain = 1e-2 * tolerance if state.n > FEW else 0.0
    small, small_model, lift = prepare(state, model, plain)
    targets = np.zeros(0) if save_at is None else save_at[save_at > 0]
    coarse = Coarsening(beta, log_scale, normalised, stepper("dopri8"), tolerance, delta, 0)
    early: list[Record] = []
    epochs, steps = [Epoch(np.asarray(small.weights), np.arange(small.n))], 0
    numbers = t1, targets, tolerance, delta, clusters, max_steps
    kept = Kept(Keeper(path, lambda: fingerprint(small_model, small, numbers), every))
    with Progress(progress, "coarsening", max(state.n - clusters, 1)) as bar, kept:
        if small.n > FEW:
            unit = math.exp(float(log_scale))
            early, epochs, steps = collapse(
                small_model, small, unit, t1, targets, stepper("dopri8"), plain, delta, max_steps, *kept.collapsing
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
    return _trajectory(model, state, history, early, epochs, errors, lift, t1, save_at, stop, config, steps)


def merge_errors(fine: list[Merge], rough: list[Merge], least: float) -> list[float]:
    """Estimated relative errors of merge times: the distance to a run with looser tolerances, infinite where the two
    disagree about what merges."""
    errors = []
    for k, merge in enumerate(fine):
        other = rough[k] if k < len(rough) else None
        same = other is not None and set(other.tokens) == set(merge.tokens)
        if same and merge.log_time is not None and other is not None and other.log_time is not None:
            errors.append(abs(math.expm1(merge.log_time - other.log_time)) + least)
        else:
            errors.append(math.inf)
    return errors


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
    if history.ended != "time" and stop is None:  # nothing moves any more
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
    in_unit = lambda value: math.exp(value - shift) if value > -math.inf else 0.0  # noqa: E731
    events = [
        {
            "kind": "merge",
            "time": in_unit(merge.log_time),
            "detail": {
                "log_time": merge.log_time + base,
                "relative_error": error,
                "tokens": list(merge.tokens),
                "clusters": [group.tolist() for group in merge.labels] if state.n <= 64 else None,
                "sizes": [len(group) for group in merge.labels],
                "masses": list(merge.masses),
                "energy_before": merge.energy_before,
                "energy_after": merge.energy_after,
            },
        }
        for merge, error in zip(history.merges, errors, strict=True)
        if merge.log_time is not None
    ]
    if history.ended == "stationary":
        words = "stationary, unstable: the forces balance; leave it with tokenfield.perturbed(state, size=1e-6, seed=0)"
        events.append({"kind": "stationary", "time": in_unit(log_t[-1]), "detail": {"message": words}})
    elif history.ended != "time" and (stop is not None or not math.isfinite(t1)):
        events.append({"kind": history.ended, "time": in_unit(log_t[-1])})
    config |= {"model": describe(model), "t1": t1 if math.isfinite(t1) else None, "stop_when": describe(stop)}
    attributes = {
        **provenance(),
        "config": json.dumps(config),
        "events": json.dumps(events),
        "log_time_unit": base + shift,
        "steps": history.steps + steps,
        "rejected_steps": 0,
    }
    dataset = to_dataset(states, np.array([in_unit(value) for value in log_t]))
    return Trajectory(
        dataset.assign(log_time=("time", log_t + base), cluster=(("time", "token"), labels)).assign_attrs(attributes)
    )


def _choose(records: list[Record], save_at: np.ndarray | None) -> list[Record]:
    """The records that are kept: those asked for, or at most some hundred with both sides of every merge."""
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
