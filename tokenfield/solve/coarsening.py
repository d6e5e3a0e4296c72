"""Clusters followed through exponentially long waits: collapsed groups become one weighted token.

What is left between two merges is a small system without stiffness, integrated in rescaled time (see `flows/coarse.py`)
by the same steps as everything else. Times are kept as logarithms.
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
from . import loop
from .run import SolverError
from .steppers import Stepper

BUCKETS = (8, 24, 96, 256, 512)  # tokens are padded to these numbers, so that few shapes are compiled
CHEAP = 24  # padding to so many costs nothing: a run that has come down to it is not padded to fewer
HALF = math.log(2)  # a pair is half-way up its energy step when beta (1 - rho) = log 2
STATIONARY = 1e-12
FIRST_STEP = 0.2


class Stop(eqx.Module):
    """Holds when two tokens are within `delta`, when q reaches `q_end`, or when two groups are within `reach`: the
    distance of their centres is the length of `difference @ x`."""

    delta: Float[Array, ""]
    q_end: Float[Array, ""]
    difference: Float[Array, " n"]
    reach: Float[Array, ""]

    def __call__(self, t: Array, y: Any, flow: CoarseFlow) -> Bool[Array, ""]:
        near = (jnp.where(flow.pairs, squared_distances(y.x), jnp.inf) <= self.delta**2).any()
        met = ((self.difference @ y.x) ** 2).sum() <= self.reach**2
        return near | (y.q >= self.q_end) | (met & (self.reach > 0))


class Epoch(NamedTuple):
    """The clusters between two merges: weights, and the cluster of each token."""

    weights: np.ndarray
    labels: np.ndarray


class Record(NamedTuple):
    """The clusters' places at a moment."""

    log_t: float
    epoch: int
    x: np.ndarray


class Merge(NamedTuple):
    """Two clusters became one. `log_time`: half-way up the energy step; None if they were never apart that far."""

    log_time: float | None
    tokens: tuple[int, int]
    labels: tuple[np.ndarray, np.ndarray]
    masses: tuple[float, float]
    energy_before: float
    energy_after: float
    log_merged: float


class History(NamedTuple):
    """All that happened: records of every step, the epochs they belong to, merges, and how it ended."""

    records: list[Record]
    epochs: list[Epoch]
    merges: list[Merge]
    ended: str
    steps: int


class SoFar(NamedTuple):
    """Where a run stands between two of its stretches; `size` is that of its padding."""

    records: list[Record]
    epochs: list[Epoch]
    merges: list[Merge]
    steps: int
    size: int


class Coarsening(NamedTuple):
    """What defines a run."""

    beta: Array
    log_scale: Array
    normalised: bool
    stepper: Stepper
    tolerance: float
    delta: float
    size: int

    def sized(self, count: int) -> "Coarsening":
        """The same with its padding fit for so many tokens."""
        least = next((size for size in BUCKETS if size >= count), count)
        return self if least == self.size or (count <= self.size <= CHEAP) else self._replace(size=least)

    def flow(self, x: np.ndarray, weights: np.ndarray, log_t: float) -> tuple[CoarseFlow, Array]:
        """The flow of a stretch that starts now, and the tokens, both padded to a bucket."""
        pad = max(self.size - len(x), 0)
        padded = jnp.asarray(np.concatenate([x, np.tile(np.eye(x.shape[1])[0], (pad, 1))]), float)
        zero, masses = jnp.zeros(()), jnp.asarray(np.concatenate([weights, np.zeros(pad)]), float)
        flow = CoarseFlow(masses, self.beta, self.log_scale, zero, zero, self.normalised)
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
    """From places x of weighted clusters at time `e^{log_t}` to `log_t1`, or until so many `clusters` are left.

    A record is made of every step; at the logarithmic times `targets` one is made exactly. `keep` is told where the run
    stands whenever it could go on from there, as `so_far`, to the same bits.
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
        q_end = math.exp(min(ends[0] - unit, 700.0)) - math.exp(min(log_t - unit, 700.0))
        q_end = q_end if math.isfinite(ends[0]) else math.inf
        stop = _stop(run.delta, q_end, np.zeros(len(padded)))
        carry, settings, one = _start(run, flow, padded), _settings(run), jnp.asarray(1)
        while int(carry.status) == loop.RUNNING:
            before = int(carry.steps)
            carry = loop.advance(flow, run.stepper, settings, stop, carry, one)
            if int(carry.steps) > before:
                now = float(np.logaddexp(log_t, unit + math.log(max(float(carry.y.q), 1e-300))))
                records.append(Record(now, len(epochs) - 1, np.asarray(carry.y.x)[: len(x)]))
                tell(now, len(x))
            steps += 1
            if steps > max_steps:
                raise SolverError(
                    f"max_steps = {max_steps} steps were not enough: stopped at log t = {records[-1].log_t:.6g}"
                )
        if int(carry.status) == loop.UNDERFLOW:
            raise SolverError(f"no step succeeds at log t = {records[-1].log_t:.6g}")
        if float(carry.y.q) >= q_end:
            records[-1] = records[-1]._replace(log_t=ends[0])
    return History(records, epochs, merges, ended, steps)


def _coalesce(run: Coarsening, records: list[Record], epochs: list[Epoch], merges: list[Merge]):
    """Merge what lies within delta, one pair after another; gives the places, weights and labels that are left."""
    x, (weights, labels) = records[-1].x, epochs[-1]
    merged = False
    while len(x) > 1:
        distances = _square(x)
        np.fill_diagonal(distances, np.inf)
        i, j = sorted(np.unravel_index(np.argmin(distances), distances.shape))
        if distances[i, j] > (run.delta * (1 + 1e-9)) ** 2:
            break
        merges.append(_merge(run, records, epochs, x, weights, labels, int(i), int(j)))
        mean = weights[i] * x[i] + weights[j] * x[j]
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
    """`|x_i - x_j|^2`; of few clusters by NumPy, which compiles nothing."""
    if len(x) > 512:
        return np.array(squared_distances(jnp.asarray(x)))
    return np.stack([((x - row) ** 2).sum(-1) for row in x])


def _merge(run, records, epochs, x, weights, labels, i: int, j: int) -> Merge:
    """The event of a merge, its time found on the records and refined by integrating again from the one before."""
    groups = np.flatnonzero(labels == i), np.flatnonzero(labels == j)
    pair = np.exp(-0.5 * float(run.beta) * _square(x))
    after = float(weights @ pair @ weights)
    before = after - 2 * weights[i] * weights[j] * float(pair[i, j])
    log_time, reach = None, math.sqrt(2 * HALF / float(run.beta))
    for record in reversed(records):
        difference = _difference(epochs[record.epoch], groups)
        if difference is None:
            break
        if np.linalg.norm(difference @ record.x) > reach:
            log_time = _half_way(run, record, epochs[record.epoch], difference, reach)
            break
    masses = float(weights[i]), float(weights[j])
    tokens = int(groups[0][0]), int(groups[1][0])
    return Merge(log_time, tokens, groups, masses, before, after, records[-1].log_t)


def _difference(epoch: Epoch, groups: tuple[np.ndarray, np.ndarray]) -> np.ndarray | None:
    """`v` such that `v @ x` is the centre of one group of tokens minus that of the other; None once they share a cluster."""
    first, second = (np.isin(np.arange(len(epoch.weights)), epoch.labels[group]) for group in groups)
    if (first & second).any():
        return None
    share = lambda inside: np.where(inside, epoch.weights, 0) / epoch.weights[inside].sum()  # noqa: E731
    return share(first) - share(second)


def _half_way(run: Coarsening, record: Record, epoch: Epoch, difference: np.ndarray, reach: float) -> float:
    """`log t` at which two groups are half-way up their energy step, soon after a record."""
    run = run.sized(len(record.x))
    flow, x = run.flow(record.x, epoch.weights, record.log_t)
    stop = _stop(0.0, math.inf, np.pad(difference, (0, len(x) - len(difference))), reach)
    carry = _start(run, flow, x)
    carry = loop.advance(flow, run.stepper, _settings(run), stop, carry, jnp.asarray(10_000))
    return float(np.logaddexp(record.log_t, float(flow.ref + flow.log_scale) + math.log(float(carry.y.q))))


def _stop(delta: float, q_end: float, difference: np.ndarray, reach: float = 0.0) -> Stop:
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    return Stop(number(delta), number(q_end), number(difference), number(reach))


def _settings(run: Coarsening) -> loop.Settings:
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    return loop.Settings(number(1e300), number(1e300), jnp.zeros(0), number(run.tolerance), number(0.0), None)


def _start(run: Coarsening, flow: CoarseFlow, x: Array) -> loop.Carry:
    empty = jnp.zeros((0,))
    carry = loop.start(
        flow, run.stepper, _settings(run), jnp.zeros(()), flow.pack(x), (empty, empty), jnp.zeros((), int)
    )
    return eqx.tree_at(lambda c: c.t_next, carry, _first_step(flow, x))


@eqx.filter_jit
def _m(flow: CoarseFlow, x: Array) -> Array:
    return flow.forces(x)[0]


@eqx.filter_jit
def _first_step(flow: CoarseFlow, x: Array) -> Array:
    """A fraction of the s in which the waiting time changes e-fold: where steps settle, whatever time has passed before."""
    _, forces = flow.forces(x)
    _, slope = jax.jvp(lambda x: flow.forces(x)[0], (x,), (forces,))
    return FIRST_STEP / (1 + jnp.abs(slope))


@eqx.filter_jit
def _balance(flow: CoarseFlow, x: Array) -> Array:
    return flow.balance(x)
