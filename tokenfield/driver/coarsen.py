"""`simulate(..., method="coarsen")`: follow metastable clusters over exponentially long times; return all tokens."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._check import positive
from ..flows import Reduction, segments
from ..flows.base import admit
from ..flows.coarse import coarse_parameters
from ..flows.tokens import check
from ..results.datasets import to_table
from ..results.finished import Finished
from ..results.trajectory import Trajectory
from ..solver.methods import runge_kutta
from ..states import Tokens
from ..stop_rule import AbstractStopRule
from ..transformer import Transformer
from .choice import reduction
from .clusters import ClusterSettings, Epoch, OnClusters, Snapshot, holds, located
from .coarsening import ClusterDynamics, least_clusters
from .collapse import FEW, SAVED, TESTED, Collapse
from .ending import check_end, check_tokens
from .fingerprint import Program, fingerprint
from .finish import run_config
from .merges import merge_errors, merge_events
from .run import AbstractSchedule, run
from .session import Session
from .single import Single
from .smooth import Options, packed, right_hand_side

MOST_SAVED = 400
LARGEST_LOG = 690.0


def simulate_coarsened(
    model: Transformer, state: Tokens, options: Options, merge_tolerance: float | None, session: Session
) -> Trajectory:
    """Run `simulate` with method "coarsen"; see there."""
    if options.stop is not None and options.stop.clusters is None:
        raise ValueError("stop_when: method 'coarsen' stops at one_cluster() or at_most_clusters(k) only")
    delta = None if merge_tolerance is None else positive("merge_tolerance", merge_tolerance)
    if not isinstance(state, Tokens):
        raise ValueError(f"method 'coarsen' moves Tokens, got {type(state).__name__}")
    beta, log_scale, normalized = coarse_parameters(model)
    check(state, model)
    admit(state, model)
    state = state.normalized()
    rule = None if options.stop is None else options.stop.resolve(model, state)
    delta = min(1e-6, 1e-3 / math.sqrt(beta)) if delta is None else delta
    if beta * delta**2 > 1e-2:
        raise ValueError(
            f"merge_tolerance = {delta:g} would merge clusters that are still apart at beta = {beta:g}: it must be "
            f"at most {0.1 / math.sqrt(beta):.3g}"
        )
    tolerance = 1e-2 * min(options.rtol + options.atol, 1e-6)  # on the sphere lengths are 1
    plain = 1e-2 * tolerance if state.n > FEW else 0.0
    small = reduction(state, model, plain, rule)
    ahead = options._replace(save_at=options.save_at[options.save_at > 0], stop=None)
    settings = ClusterSettings(beta, log_scale, normalized, tolerance, delta, ahead)
    collapse = None
    if small.state.n > FEW:
        first = ahead._replace(rtol=0.0, atol=plain, method=runge_kutta("dopri8"))
        saved = SAVED if rule is None else TESTED
        collapse = Collapse(small.model, small.state, math.exp(log_scale), first, delta, saved)
    schedule = Coarsening(collapse, settings, small.state, rule)
    numbers = options.t1, ahead.save_at, tolerance, delta, rule, options.max_steps
    identity = lambda: _identity(small.model, small.state, numbers)  # noqa: E731
    bar = session.bar("coarsening", max(state.n - least_clusters(rule), 1))
    record = run(schedule, Single(), bar, session.checkpointer(identity))
    loose = schedule.cluster_dynamics(
        settings._replace(tolerance=100 * tolerance, delta=3 * delta, options=ahead._replace(save_at=np.zeros(0)))
    )
    alone = Session()
    run(loose, Single(), alone.bar("", 1), alone.checkpointer(str))
    errors = merge_errors(schedule.found.merges, loose.merges, 10 * tolerance + 10 * (1 + beta) * plain)
    steps = (0, 0) if record is None else (int(record.carry.steps), int(record.carry.rejected))
    return _trajectory(model, state, small, options._replace(stop=rule), schedule, errors, steps)


class Coarsening(AbstractSchedule):
    """First the collapse of many tokens into few clusters (if there are many), then the slow merging of these clusters."""

    def __init__(
        self, collapse: Collapse | None, settings: ClusterSettings, state: Tokens, rule: AbstractStopRule | None
    ):
        self.collapse, self.settings, self.state, self.rule = collapse, settings, state, rule
        self.dynamics: ClusterDynamics | None = None

    def cluster_dynamics(self, settings: ClusterSettings) -> ClusterDynamics:
        """Return the schedule of the clusters, from the end of the collapse."""
        if self.collapse is None:
            start = Snapshot(-math.inf, 0, np.asarray(self.state.x))
            epoch = Epoch(np.asarray(self.state.weights), np.arange(self.state.n))
        else:
            start, epoch = self.collapse.snapshots[-1], self.collapse.epochs[-1]
        return ClusterDynamics(settings, start, epoch, self.rule)

    @property
    def found(self) -> ClusterDynamics:
        """The schedule of the clusters, once the run has ended."""
        assert self.dynamics is not None
        return self.dynamics

    def history(self) -> tuple[list[Snapshot], list[Epoch]]:
        """Return the snapshots of the whole run, and their epochs."""
        if self.collapse is None:
            return [*self.found.snapshots], [*self.found.epochs]
        early, first = self.collapse.snapshots, self.collapse.epochs
        later = [each._replace(epoch=each.epoch + len(first) - 1) for each in self.found.snapshots[1:]]
        return [*early, *later], [*first, *self.found.epochs[1:]]

    @property
    def _current(self) -> AbstractSchedule:
        current = self.collapse if self.dynamics is None else self.dynamics
        assert current is not None
        return current

    @property
    def max_steps(self):
        return self.settings.options.max_steps

    def stage(self):
        if self.dynamics is None and (self.collapse is None or self.collapse.ended):
            self.dynamics = self.cluster_dynamics(self.settings)
        return self._current.stage()

    def after_chunk(self, record):
        self._current.after_chunk(record)

    def finish(self, record):
        self._current.finish(record)

    def progress(self, t):
        return self._current.progress(t)

    def reached(self, t):
        return self._current.reached(t)

    def checkpoint_data(self):
        return [None if each is None else each.checkpoint_data() for each in (self.collapse, self.dynamics)]

    def restore(self, data):
        if self.collapse is not None:
            self.collapse.restore(data[0])
        if data[1] is not None:
            self.dynamics = self.cluster_dynamics(self.settings)
            self.dynamics.restore(data[1])


def _identity(model: Transformer, state: Tokens, numbers: tuple[Any, ...]) -> str:
    programs = [
        Program("model", right_hand_side, (part.flow, jnp.zeros(()), packed(part.flow, state)))
        for part in segments(state, model)
    ]
    return fingerprint(model, state, numbers, programs=programs)


def _trajectory(
    model: Transformer,
    state: Tokens,
    small: Reduction,
    options: Options,
    schedule: Coarsening,
    errors: list[float],
    steps: tuple[int, int],
) -> Trajectory:
    t1, save_at, stop = options.t1, options.save_at, options.stop
    dynamics, (snapshots, epochs) = schedule.found, schedule.history()
    cut = None if stop is None else _until(stop, schedule.settings, snapshots, epochs)
    snapshots = snapshots if cut is None else cut
    last = snapshots[-1]
    if dynamics.ended != "time" and cut is None:  # nothing moves anymore
        later = [float(value) for value in np.log(save_at[save_at > 0]) if value > last.log_t]
        if math.isfinite(t1) and max([last.log_t, *later]) < math.log(t1):
            later.append(math.log(t1))
        snapshots += [last._replace(log_t=value) for value in later]
    chosen = _choose(snapshots, save_at)
    labels = np.stack([epochs[r.epoch].labels for r in chosen])
    x = np.stack([r.x[label] for r, label in zip(chosen, labels, strict=True)])
    log_t = np.array([r.log_t for r in chosen])
    repeat = lambda a: np.broadcast_to(np.asarray(a), (len(chosen), state.n))  # noqa: E731
    everything = x, repeat(state.weights), repeat(state.positions)
    states = small.lift(eqx.tree_at(lambda s: (s.x, s.weights, s.positions), state, everything))
    shift = 0.0 if log_t[-1] <= LARGEST_LOG else float(math.ceil(log_t[-1]))
    base = -float(model.attention.log_unit) + 0.0
    asked = [float(t) for t in (t1, *save_at) if 0 < t < math.inf]
    exact = {float(log(t)): t for t in asked for log in (np.log, math.log)} if shift == 0 else {}  # e^(log t) is not t

    def in_unit(value: float) -> float:
        return exact[value] if value in exact else math.exp(value - shift) if value > -math.inf else 0.0

    merges = merge_events(dynamics.merges, errors, dynamics.epochs[0].weights, base, shift)
    events = [event for event in merges if cut is None or event["detail"]["log_time"] <= last.log_t + base]
    if cut is not None and stop is not None:
        events.append({"kind": stop.kind, "time": in_unit(last.log_t)})
    elif dynamics.ended == "stationary":
        message = "unstable equilibrium: the forces balance; to leave it, start from tokenfield.perturbed(state, size=1e-6, seed=0)"
        events.append({"kind": "stationary", "time": in_unit(last.log_t), "detail": {"message": message}})
    elif dynamics.ended == "merged" and not math.isfinite(t1):
        events.append({"kind": "one_cluster", "time": in_unit(last.log_t)})
    reached = math.exp(min(log_t[-1] - math.log(t1), 0.0)) if math.isfinite(t1) else 0.0
    check_end(reached, 1.0, [event for event in events if event["kind"] != "merge"])
    check_tokens(model, states)
    table = to_table(states, np.array([in_unit(value) for value in log_t]))
    table = table.assign(log_time=("time", log_t + base), cluster=(("time", "token"), labels))
    config = run_config(options, [*small.names, "coarsening"])
    config |= {"merge_tolerance": schedule.settings.delta, "t1": t1 if math.isfinite(t1) else None}
    return Finished(table, events, base + shift, *steps).trajectory(model, config)


def _until(
    rule: AbstractStopRule, settings: ClusterSettings, snapshots: list[Snapshot], epochs: list[Epoch]
) -> list[Snapshot] | None:
    """Return the snapshots up to the time from which the rule holds, which is the time of the last one; None if it never holds."""
    first = next((k for k, each in enumerate(snapshots) if holds(rule, settings, each, epochs[each.epoch])), None)
    if first is None or first == 0:
        return None if first is None else snapshots[:1]
    before = snapshots[first - 1]
    if before.epoch != snapshots[first].epoch:
        raise ValueError(
            f"stop_when: {rule.kind} holds only once clusters are replaced by one token: give it a larger tol, or the run a "
            f"merge_tolerance below {settings.delta:g}"
        )
    on_clusters = lambda flow: OnClusters(rule, flow.weights, flow.present)  # noqa: E731
    return [*snapshots[:first], located(settings, before, epochs[before.epoch], on_clusters)]


def _choose(snapshots: list[Snapshot], save_at: np.ndarray) -> list[Snapshot]:
    """Return the snapshots to save: those at `save_at`, or by default a few hundred that include both sides of every merge."""
    if save_at.size:
        with np.errstate(divide="ignore"):
            wanted = np.log(save_at)
        place = {snapshot.log_t: k for k, snapshot in enumerate(snapshots)}
        found = [place[value] for value in wanted if value in place]
        return [
            snapshots[k] for k in [*found, *([] if found and found[-1] == len(snapshots) - 1 else [len(snapshots) - 1])]
        ]
    last = len(snapshots) - 1
    picked = set(np.linspace(0, last, min(len(snapshots), MOST_SAVED)).round().astype(int).tolist())
    picked |= {k for k in range(last) if snapshots[k].epoch != snapshots[k + 1].epoch}
    picked |= {k + 1 for k in range(last) if snapshots[k].epoch != snapshots[k + 1].epoch}
    return [snapshots[k] for k in sorted(picked)]
