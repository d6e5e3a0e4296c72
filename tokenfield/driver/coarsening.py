"""Follow clusters through exponentially long waits: each collapsed group becomes one weighted token.

Between two merges the remaining system is small and not stiff. It is integrated in rescaled time (see `flows/coarse.py`)
with the same steps as any other run. Times are stored as logarithms.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..flows.coarse import CoarseFlow, squared_distances
from ..solver.base import RUNNING, UNDERFLOW, AbstractMethod, Settings
from .errors import SolverError
from .merges import Merge
from .record import Problem, begin, go_on
from .record import Record as Run

BUCKETS = (8, 24, 96, 256, 512)  # numbers of tokens are padded to one of these, so that few shapes are compiled
CHEAP = 24  # padding to this number costs nothing, so no run is padded to fewer
HALF = math.log(2)  # a pair is halfway up its energy step when beta (1 - rho) = log 2
STATIONARY = 1e-12
FIRST_STEP = 0.2
LOOK = math.log(4)


class Stop(eqx.Module):
    """Stop when two tokens are within `delta`, when q reaches `q_end`, or when two groups are within `reach`.

    The distance between the centers of the two groups is the length of `difference @ x`.
    """

    delta: Float[Array, ""]
    q_end: Float[Array, ""]
    difference: Float[Array, " n"]
    reach: Float[Array, ""]
    differentiable: bool = eqx.field(static=True, default=False)

    def __call__(self, t: Array, y: Any, flow: CoarseFlow) -> Bool[Array, ""]:
        near = (jnp.where(flow.pairs, squared_distances(y.x), jnp.inf) <= self.delta**2).any()
        met = ((self.difference @ y.x) ** 2).sum() <= self.reach**2
        return near | (y.q >= self.q_end) | (met & (self.reach > 0))


class Epoch(NamedTuple):
    """The clusters between two merges: their weights, and the cluster of each token."""

    weights: np.ndarray
    labels: np.ndarray


class Record(NamedTuple):
    """The positions of the clusters at one time."""

    log_t: float
    epoch: int
    x: np.ndarray


class History(NamedTuple):
    """The whole run: a record of every step, the epochs of the records, the merges, and how the run ended."""

    records: list[Record]
    epochs: list[Epoch]
    merges: list[Merge]
    ended: str
    steps: int


class SoFar(NamedTuple):
    """The state of a run between two stretches; `size` is the padded number of tokens."""

    records: list[Record]
    epochs: list[Epoch]
    merges: list[Merge]
    steps: int
    size: int


class Coarsening(NamedTuple):
    """The parameters of a run."""

    beta: Array
    log_scale: Array
    normalised: bool
    method: AbstractMethod
    tolerance: float
    delta: float
    size: int

    def sized(self, count: int) -> "Coarsening":
        """Return the same run, padded for `count` tokens."""
        least = next((size for size in BUCKETS if size >= count), count)
        return self if least == self.size or (count <= self.size <= CHEAP) else self._replace(size=least)

    def flow(self, x: np.ndarray, weights: np.ndarray, log_t: float) -> tuple[CoarseFlow, Array]:
        """Return the flow of a stretch that starts at `log_t`, and the tokens, both padded to a bucket size."""
        pad = max(self.size - len(x), 0)
        padded = jnp.asarray(np.concatenate([x, np.tile(np.eye(x.shape[1])[0], (pad, 1))]), float)
        zero, masses = jnp.zeros(()), jnp.asarray(np.concatenate([weights, np.zeros(pad)]), float)
        there = jnp.asarray(np.arange(len(x) + pad) < len(x))
        passive = self.normalised and bool((weights == 0).any())
        flow = CoarseFlow(masses, there, self.beta, self.log_scale, zero, zero, self.normalised, passive)
        m = _m(flow, padded)
        elapsed = jnp.exp(jnp.minimum(log_t - m - self.log_scale, 600.0))
        return eqx.tree_at(lambda f: (f.ref, f.elapsed), flow, (m, elapsed)), padded


def follow(
    run: Coarsening,
    x: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    log_t: float,
    log_t1: float,
    targets: np.ndarray,
    clusters: int = 1,
    max_steps: int = 1_000_000,
    tell: Callable[[float, int], None] = lambda log_t, count: None,
    so_far: SoFar | None = None,
    keep: Callable[[SoFar], None] = lambda so_far: None,
) -> History:
    """Follow weighted clusters at positions x from time `e^{log_t}` to `e^{log_t1}`, or until `clusters` of them are left.

    Every step is recorded, and there is a record exactly at each of the logarithmic times `targets`. `keep` is called with
    each state from which the run can resume: passed as `so_far`, it gives the same bits.
    """
    if so_far is None:
        so_far = SoFar([Record(log_t, 0, x)], [Epoch(weights, labels)], [], 0, run.size)
    records, epochs, merges, steps, size = so_far
    run, ended = run._replace(size=size), ""
    ends = [*sorted(target for target in targets if log_t < target < log_t1), log_t1]
    while not ended:
        keep(SoFar([*records], [*epochs], [*merges], steps, run.size))
        x, weights, labels = _coalesce(run, records, epochs, merges)
        if len(x) <= clusters:
            ended = "one_cluster" if clusters == 1 else f"at_most_{clusters}_clusters"
            break
        log_t, run = records[-1].log_t, run.sized(len(x))
        flow, padded = run.flow(x, weights, log_t)
        if float(_balance(flow, padded)) < STATIONARY:
            ended = "stationary"
            break
        while ends and ends[0] <= log_t:
            ends.pop(0)
        if not ends:
            ended = "time"
            break
        unit = float(flow.ref + flow.log_scale)
        end = ends[0]
        if flow.passive:  # time is not rescaled here, so check regularly whether anything still moves
            end = min(end, max(log_t, unit) + LOOK)
        q_end = math.exp(min(end - unit, 700.0)) - math.exp(min(log_t - unit, 700.0))
        q_end = q_end if math.isfinite(end) else math.inf
        problem = Problem(flow, run.method, _settings(run), _stop(run.delta, q_end, np.zeros(len(padded))))  # type: ignore[arg-type]
        now_at, one = _start(problem, padded), jnp.asarray(1)
        while int((carry := now_at.carry).status) == RUNNING:
            before = int(carry.steps)
            now_at = go_on(problem, now_at, one)
            carry = now_at.carry
            if int(carry.steps) > before:
                now = float(np.logaddexp(log_t, unit + math.log(max(float(carry.y.q), 1e-300))))
                records.append(Record(now, len(epochs) - 1, np.asarray(carry.y.x)[: len(x)]))
                tell(now, len(x))
            steps += 1
            if steps > max_steps:
                raise SolverError(
                    f"max_steps = {max_steps} steps were not enough: stopped at log t = {records[-1].log_t:.6g}; increase max_steps"
                )
        if int(carry.status) == UNDERFLOW:
            raise SolverError(f"no step succeeds at log t = {records[-1].log_t:.6g}")
        if float(carry.y.q) >= q_end:
            records[-1] = records[-1]._replace(log_t=end)
    return History(records, epochs, merges, ended, steps)


def _coalesce(run: Coarsening, records: list[Record], epochs: list[Epoch], merges: list[Merge]):
    """Merge clusters within delta, one pair after another; return the remaining positions, weights and labels."""
    x, (weights, labels) = records[-1].x, epochs[-1]
    merged = False
    while len(x) > 1:
        distances = _square(x)
        np.fill_diagonal(distances, np.inf)
        i, j = sorted(np.unravel_index(np.argmin(distances), distances.shape))
        if distances[i, j] > (run.delta * (1 + 1e-9)) ** 2:
            break
        merges.append(_merge(run, records, epochs, x, weights, labels, int(i), int(j)))
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
        records.append(Record(records[-1].log_t, len(epochs) - 1, x))
    return x, weights, labels


def _square(x: np.ndarray) -> np.ndarray:
    """Return `|x_i - x_j|^2`; for few clusters with NumPy, which needs no compilation."""
    if len(x) > 512:
        return np.array(squared_distances(jnp.asarray(x)))
    return np.stack([((x - row) ** 2).sum(-1) for row in x])


def _merge(run, records, epochs, x, weights, labels, i: int, j: int) -> Merge:
    """Return the merge of clusters i and j. Its time is located in the records, then refined by integrating again."""
    groups = np.flatnonzero(labels == i), np.flatnonzero(labels == j)
    beta, seen, farthest = float(run.beta), [], 0.0
    reach = math.sqrt(2 * HALF / beta)
    for record, difference in _apart(records, epochs, groups):
        distance = float(np.linalg.norm(difference @ record.x))
        seen.append((record, difference, distance))
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
        record, difference, _ = next(place for place in seen if place[2] > reach)
        log_time = _half_way(run, record, epochs[record.epoch], difference, reach)
    tokens, masses = (int(groups[0][0]), int(groups[1][0])), (float(weights[i]), float(weights[j]))
    return Merge(log_time, fraction, tokens, groups, masses, records[-1].log_t)


def _apart(records: list[Record], epochs: list[Epoch], groups: tuple[np.ndarray, np.ndarray]):
    """Yield the records in which two groups of tokens share no cluster, last one first, each with its `_difference`."""
    for record in reversed(records):
        difference = _difference(epochs[record.epoch], groups)
        if difference is None:
            return
        yield record, difference


def _difference(epoch: Epoch, groups: tuple[np.ndarray, np.ndarray]) -> np.ndarray | None:
    """Return v such that `v @ x` is the center of one group minus the center of the other; None if they share a cluster."""
    first, second = (np.isin(np.arange(len(epoch.weights)), epoch.labels[group]) for group in groups)
    if (first & second).any():
        return None

    def share(inside: np.ndarray) -> np.ndarray:
        mass = epoch.weights if epoch.weights[inside].any() else np.ones_like(epoch.weights)
        return np.where(inside, mass, 0) / mass[inside].sum()

    return share(first) - share(second)


def _half_way(run: Coarsening, record: Record, epoch: Epoch, difference: np.ndarray, reach: float) -> float:
    """Return `log t` at which two groups are halfway up their energy step, shortly after a record."""
    run = run.sized(len(record.x))
    flow, x = run.flow(record.x, epoch.weights, record.log_t)
    stop = _stop(0.0, math.inf, np.pad(difference, (0, len(x) - len(difference))), reach)
    problem = Problem(flow, run.method, _settings(run), stop)  # type: ignore[arg-type]
    carry = go_on(problem, _start(problem, x), jnp.asarray(10_000)).carry
    return float(np.logaddexp(record.log_t, float(flow.ref + flow.log_scale) + math.log(max(float(carry.y.q), 1e-300))))


def _stop(delta: float, q_end: float, difference: np.ndarray, reach: float = 0.0) -> Stop:
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    return Stop(number(delta), number(q_end), number(difference), number(reach))


def _settings(run: Coarsening) -> Settings:
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    return Settings(number(1e300), number(1e300), jnp.zeros(0), number(run.tolerance), number(0.0))


def _start(problem: Problem, x: Array) -> Run:
    record = begin(problem, jnp.zeros(()), problem.flow.pack(x), None)
    return eqx.tree_at(lambda r: r.carry.t_next, record, _first_step(problem.flow, x))  # type: ignore[arg-type]


@eqx.filter_jit
def _m(flow: CoarseFlow, x: Array) -> Array:
    return flow.forces(x)[0]


@eqx.filter_jit
def _first_step(flow: CoarseFlow, x: Array) -> Array:
    """Return a fraction of the rescaled time s in which the waiting time changes by a factor e.

    Step sizes settle there, however much time has passed before.
    """
    _, forces = flow.forces(x)
    _, slope = jax.jvp(lambda x: flow.forces(x)[0], (x,), (forces,))
    return FIRST_STEP / (1 + jnp.abs(slope))


@eqx.filter_jit
def _balance(flow: CoarseFlow, x: Array) -> Array:
    return flow.balance(x)
