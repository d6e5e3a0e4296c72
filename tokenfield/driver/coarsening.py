"""Follow metastable clusters over exponentially long times: each collapsed group becomes one weighted token.

Between two merges the remaining system is small and not stiff. It is integrated in rescaled time (see `flows/coarse.py`
and `solver/coarsen.py`). Times are stored as logarithms.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..flows.coarse import CoarseFlow, squared_distances
from ..solver.base import FAILED, Problem
from ..solver.stop import OnFlow
from ..stop_rule import AbstractStopRule
from .clusters import ClusterSettings, Epoch, Snapshot, constants, holds, located, merge_rule
from .ending import fail
from .merges import Merge
from .run import AbstractSchedule, Stage

HALF = math.log(2)  # half of the energy step of a merge is reached when beta (1 - rho) = log 2
STATIONARY = 1e-12
ROUNDING = 1e-15  # of a distance on the unit sphere
CHECK_INTERVAL = math.log(4)


class Interval(NamedTuple):
    """The time between two merges: tokens x (padded), their flow, the unit of q, and the end in both times."""

    flow: CoarseFlow
    x: Array
    log_t: float
    log_unit: float
    log_end: float
    q_end: float


class ClusterDynamics(AbstractSchedule):
    """Weighted clusters from a snapshot to the end of the run, or until as few of them are left as its rule says.

    Every step is recorded in `snapshots`, and there is one exactly at each of the save times.

    Args:
        settings: the parameters.
        start, epoch: positions, weights and labels of the clusters at the start.
        rule: the stop rule, if any. The run goes on until the rule holds for merged clusters, later than for their tokens, so
            that all merges before the stop are known.
    """

    def __init__(self, settings: ClusterSettings, start: Snapshot, epoch: Epoch, rule: AbstractStopRule | None):
        self.settings, self.rule = settings, rule
        log_t, log_t1 = start.log_t, float(np.log(settings.options.t1))
        targets = np.log(settings.options.save_at)
        self.ends = [*sorted(target for target in targets if log_t < target < log_t1), log_t1]
        self.snapshots, self.epochs = [start._replace(epoch=0)], [epoch]
        self.merges: list[Merge] = []
        self.recent: list[Snapshot] = []
        self.s, self.ended = 0.0, ""
        self._next_interval()

    @property
    def max_steps(self):
        return self.settings.options.max_steps

    def stage(self):
        if self.ended:
            return None
        interval = self.interval
        stop = merge_rule(interval.flow, self.settings.delta, interval.q_end)
        problem = Problem(interval.flow, self.settings.options.method, constants(self.settings), OnFlow(stop))
        return Stage(problem, 0.0, interval.flow.pack(interval.x), chunk=1)

    def after_chunk(self, record):
        s, y = float(record.carry.t), record.carry.y
        if s > self.s:  # the step was accepted
            log_t = float(np.logaddexp(self.interval.log_t, self.interval.log_unit + math.log(max(float(y.q), 1e-300))))
            x = np.asarray(y.x)[: len(self.epochs[-1].weights)]
            self.recent.append(Snapshot(log_t, len(self.epochs) - 1, x))
        self.s = s

    def finish(self, record):
        self.snapshots += self.recent
        self.recent, self.s = [], 0.0
        if int(record.carry.status) == FAILED:
            fail(self.settings.options.method, self.interval.flow, float(record.carry.t), record.carry.y)
        if float(record.carry.y.q) >= self.interval.q_end:
            self.snapshots[-1] = self.snapshots[-1]._replace(log_t=self.interval.log_end)
        self._next_interval()

    def progress(self, t):
        return len(self.epochs[0].labels) - len(self.epochs[-1].weights)

    def reached(self, t):
        return f"log t = {(self.recent or self.snapshots)[-1].log_t:.6g}"

    def checkpoint_data(self):
        lists: dict[str, list[Any]] = {
            "snapshots": self.snapshots,
            "recent": self.recent,
            "epochs": self.epochs,
            "merges": self.merges,
        }
        return {name: [*each] for name, each in lists.items()} | {"size": self.settings.size, "s": self.s}

    def restore(self, data):
        self.snapshots, self.epochs = [Snapshot(*each) for each in data["snapshots"]], epochs_of(data["epochs"])
        self.merges = [Merge.restored(each) for each in data["merges"]]
        self.settings, self.ended = self.settings._replace(size=data["size"]), ""
        self._next_interval()
        self.recent, self.s = [Snapshot(*each) for each in data["recent"]], data["s"]

    def _has_ended(self, count: int) -> bool:
        """Return True if the stop rule holds for the merged clusters."""
        if self.rule is None or count > least_clusters(self.rule):
            return False
        return holds(self.rule, self.settings, self.snapshots[-1], self.epochs[-1])

    def _next_interval(self) -> None:
        """Merge clusters that are within delta, then find the next interval, or why the run has ended."""
        x, weights = _coalesce(self.settings, self.snapshots, self.epochs, self.merges)
        if len(x) == 1 or self._has_ended(len(x)):
            self.ended = "merged"
            return
        log_t, self.settings = self.snapshots[-1].log_t, self.settings.sized(len(x))
        flow, padded = self.settings.flow(x, weights, log_t)
        if float(_balance(flow, padded)) < STATIONARY:
            self.ended = "stationary"
            return
        self.ends = [end for end in self.ends if end > log_t]
        if not self.ends:
            self.ended = "time"
            return
        unit, end = float(flow.ref + flow.log_scale), self.ends[0]
        if flow.passive:  # time is not rescaled here, so end regularly to check whether anything still moves
            end = min(end, max(log_t, unit) + CHECK_INTERVAL)
        q_end = math.exp(min(end - unit, 700.0)) - math.exp(min(log_t - unit, 700.0))
        self.interval = Interval(flow, padded, log_t, unit, end, q_end if math.isfinite(end) else math.inf)


def least_clusters(rule: AbstractStopRule | None) -> int:
    """Return the number of clusters at which a run may end."""
    return 1 if rule is None else int(rule.clusters)  # type: ignore[arg-type]


def epochs_of(data: list[Any]) -> list[Epoch]:
    """Return the epochs of a checkpoint."""
    return [Epoch(*each) for each in data]


def _coalesce(
    run: ClusterSettings, snapshots: list[Snapshot], epochs: list[Epoch], merges: list[Merge]
) -> tuple[np.ndarray, np.ndarray]:
    """Merge clusters within delta, one pair after another; return the remaining positions and weights."""
    x, (weights, labels) = snapshots[-1].x, epochs[-1]
    merged = False
    while len(x) > 1:
        distances = _squared_distances(x)
        np.fill_diagonal(distances, np.inf)
        i, j = sorted(np.unravel_index(np.argmin(distances), distances.shape))
        if distances[i, j] > (run.delta * (1 + 1e-9) + ROUNDING) ** 2:
            break
        merges.append(_merge(run, snapshots, epochs, Epoch(weights, labels), int(i), int(j)))
        share = weights[[i, j]] if weights[i] + weights[j] > 0 else np.ones(2)
        mean = share[0] * x[i] + share[1] * x[j]
        x, weights = x.copy(), weights.copy()
        x[i], weights[i] = mean / np.linalg.norm(mean), weights[i] + weights[j]
        x, weights = np.delete(x, j, axis=0), np.delete(weights, j)
        labels = np.where(labels == j, i, labels)
        labels = np.where(labels > j, labels - 1, labels)
        merged = True
    if merged:
        epochs.append(Epoch(weights, labels))
        snapshots.append(Snapshot(snapshots[-1].log_t, len(epochs) - 1, x))
    return x, weights


def _squared_distances(x: np.ndarray) -> np.ndarray:
    """Return `|x_i - x_j|^2`; for few clusters with NumPy, which needs no compilation."""
    if len(x) > 512:
        return np.array(squared_distances(jnp.asarray(x)))
    return np.stack([((x - row) ** 2).sum(-1) for row in x])


def _merge(run: ClusterSettings, snapshots: list[Snapshot], epochs: list[Epoch], now: Epoch, i: int, j: int) -> Merge:
    """Return the merge of clusters i and j. Its time is located in the snapshots, then refined by integrating again."""
    groups = np.flatnonzero(now.labels == i), np.flatnonzero(now.labels == j)
    beta, seen, farthest = run.beta, list[tuple[Snapshot, np.ndarray, float]](), 0.0
    reach = math.sqrt(2 * HALF / beta)
    for snapshot, difference in _apart(snapshots, epochs, groups):
        distance = float(np.linalg.norm(difference @ snapshot.x))
        seen.append((snapshot, difference, distance))
        farthest = max(farthest, distance)
        if distance > reach:
            break
    log_time, fraction = seen[-1][0].log_t, 1.0
    if farthest > run.delta:
        if farthest <= reach:  # halfway up the rest of the step
            fraction = 1 + math.expm1(-0.5 * beta * farthest**2) / 2
            reach = math.sqrt(-2 * math.log(fraction) / beta)
        else:
            fraction = 0.5
        snapshot, difference, _ = next(place for place in seen if place[2] > reach)
        padded = lambda n: np.pad(difference, (0, n - len(difference)))  # noqa: E731
        half_way = lambda flow: merge_rule(flow, 0.0, math.inf, padded(len(flow.weights)), reach)  # noqa: E731
        log_time = located(run, snapshot, epochs[snapshot.epoch], half_way).log_t
    tokens, masses = (int(groups[0][0]), int(groups[1][0])), (float(now.weights[i]), float(now.weights[j]))
    return Merge(log_time, fraction, tokens, groups, masses, snapshots[-1].log_t)


def _apart(
    snapshots: list[Snapshot], epochs: list[Epoch], groups: tuple[np.ndarray, np.ndarray]
) -> Iterator[tuple[Snapshot, np.ndarray]]:
    """Yield the snapshots in which two groups of tokens share no cluster, last one first, each with its `_difference`."""
    for snapshot in reversed(snapshots):
        difference = _difference(epochs[snapshot.epoch], groups)
        if difference is None:
            return
        yield snapshot, difference


def _difference(epoch: Epoch, groups: tuple[np.ndarray, np.ndarray]) -> np.ndarray | None:
    """Return v such that `v @ x` is the center of one group minus the center of the other; None if they share a cluster."""
    first, second = (np.isin(np.arange(len(epoch.weights)), epoch.labels[group]) for group in groups)
    if (first & second).any():
        return None

    def share(inside: np.ndarray) -> np.ndarray:
        mass = epoch.weights if epoch.weights[inside].any() else np.ones_like(epoch.weights)
        return np.where(inside, mass, 0) / mass[inside].sum()

    return share(first) - share(second)


@eqx.filter_jit
def _balance(flow: CoarseFlow, x: Array) -> Array:
    return flow.balance(x)
