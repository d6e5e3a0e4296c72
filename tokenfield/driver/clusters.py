"""Metastable clusters at one time, and the time at which a rule holds for them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..flows.coarse import CoarseFlow, squared_distances
from ..solver.base import RUNNING, STOPPED, Problem, Settings
from ..solver.stop import OnFlow
from ..states import Tokens
from ..stop_rule import AbstractStopRule
from .errors import SolverError
from .run import Stage
from .single import Single
from .smooth import Options

BUCKETS = (8, 24, 96, 256, 512)  # the number of tokens is padded to one of these, so that few shapes are compiled
CHEAP = 24  # this few tokens cost almost nothing: the padding is not reduced below this number


class Epoch(NamedTuple):
    """The clusters between two merges: their weights, and the cluster of each token."""

    weights: np.ndarray
    labels: np.ndarray


class Snapshot(NamedTuple):
    """The positions of the clusters at one time."""

    log_t: float
    epoch: int
    x: np.ndarray


class ClusterSettings(NamedTuple):
    """The parameters of a run.

    Args:
        beta, log_scale, normalized: those of `CoarseFlow`.
        tolerance: relative tolerance of the steps.
        delta: the distance within which clusters merge.
        options: the end, the save times, the method and the number of steps of the run.
        size: the padded number of tokens.
    """

    beta: float
    log_scale: float
    normalized: bool
    tolerance: float
    delta: float
    options: Options
    size: int = 0

    def sized(self, count: int) -> "ClusterSettings":
        """Return the parameters with a padded size for `count` tokens."""
        least = next((size for size in BUCKETS if size >= count), count)
        return self if least == self.size or (count <= self.size <= CHEAP) else self._replace(size=least)

    def flow(self, x: np.ndarray, weights: np.ndarray, log_t: float) -> tuple[CoarseFlow, Array]:
        """Return the flow of an interval that starts at `log_t`, and the tokens, both padded to a bucket size."""
        pad = max(self.size - len(x), 0)
        padded = jnp.asarray(np.concatenate([x, np.tile(np.eye(x.shape[1])[0], (pad, 1))]), float)
        zero, masses = jnp.zeros(()), jnp.asarray(np.concatenate([weights, np.zeros(pad)]), float)
        present = jnp.asarray(np.arange(len(x) + pad) < len(x))
        passive = self.normalized and bool((weights == 0).any())
        beta, log_scale = jnp.asarray(self.beta, float), jnp.asarray(self.log_scale, float)
        flow = CoarseFlow(masses, present, beta, log_scale, zero, zero, self.normalized, passive)
        m = _m(flow, padded)
        elapsed = jnp.exp(jnp.minimum(log_t - m - self.log_scale, 600.0))
        return eqx.tree_at(lambda f: (f.ref, f.elapsed), flow, (m, elapsed)), padded


class OnClusters(AbstractStopRule):
    """A rule for tokens, applied to clusters. Padding counts as copies of the first cluster, of weight 0."""

    rule: AbstractStopRule
    weights: Float[Array, " n"]
    present: Bool[Array, " n"]

    @property
    def kind(self):
        return self.rule.kind

    @property
    def differentiable(self):
        return False

    @property
    def rotation_invariant(self):
        return self.rule.rotation_invariant

    @property
    def clusters(self):
        return self.rule.clusters

    def margin(self, t, state, velocity):
        x = jnp.where(self.present[:, None], state.x, state.x[0])
        return self.rule.margin(t, Tokens(x, self.weights), velocity)

    def resolve(self, model, state):
        return self


class MergeRule(AbstractStopRule):
    """Stop when two tokens are within `delta`, when the time q reaches `q_end`, or when two groups are within `reach`.

    The distance between the centers of the two groups is the length of `difference @ x`.
    """

    pairs: Bool[Array, "n n"]
    delta: Float[Array, ""]
    q_end: Float[Array, ""]
    difference: Float[Array, " n"]
    reach: Float[Array, ""]

    @property
    def kind(self):
        return "merge"

    @property
    def differentiable(self):
        return False

    @property
    def rotation_invariant(self):
        return True

    @property
    def clusters(self):
        return None

    def margin(self, t, state, velocity):
        near = (jnp.where(self.pairs, squared_distances(state.x), jnp.inf) <= self.delta**2).any()
        met = ((self.difference @ state.x) ** 2).sum() <= self.reach**2
        return jnp.where(near | (state.q >= self.q_end) | (met & (self.reach > 0)), 1.0, -1.0)

    def resolve(self, model, state):
        return self


def merge_rule(
    flow: CoarseFlow, delta: float, q_end: float, difference: np.ndarray | None = None, reach: float = 0.0
) -> MergeRule:
    """Return the stop rule of an interval."""
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    difference = np.zeros(len(flow.weights)) if difference is None else difference
    return MergeRule(_pairs(flow), number(delta), number(q_end), number(difference), number(reach))


def holds(rule: AbstractStopRule, settings: ClusterSettings, snapshot: Snapshot, epoch: Epoch) -> bool:
    """Return True if a rule for tokens holds in a snapshot."""
    pad = max(settings.sized(len(snapshot.x)).size - len(snapshot.x), 0)
    x = np.concatenate([snapshot.x, np.repeat(snapshot.x[:1], pad, 0)])
    return bool(_margin(rule, jnp.asarray(x), jnp.asarray(np.pad(epoch.weights, (0, pad)))) >= 0)


def located(
    settings: ClusterSettings, snapshot: Snapshot, epoch: Epoch, rule: Callable[[CoarseFlow], AbstractStopRule]
) -> Snapshot:
    """Integrate again from a snapshot; return the one at the time from which a rule holds, soon after it."""
    settings = settings.sized(len(snapshot.x))
    flow, x = settings.flow(snapshot.x, epoch.weights, snapshot.log_t)
    stop = rule(flow)
    problem, loop = Problem(flow, settings.options.method, constants(settings), OnFlow(stop)), Single()
    record = loop.begin(Stage(problem, 0.0, flow.pack(x)), None)
    carry = loop.advance(problem, record, settings.options.max_steps).carry
    if int(carry.status) == RUNNING:
        raise SolverError(
            f"max_steps = {settings.options.max_steps} steps were not enough to locate {stop.kind!r} after log t = "
            f"{snapshot.log_t:.6g}"
        )
    if int(carry.status) != STOPPED:
        raise SolverError(f"{stop.kind!r} could not be located after log t = {snapshot.log_t:.6g}: tighten rtol")
    log_q = float(flow.ref + flow.log_scale) + math.log(max(float(carry.y.q), 1e-300))
    log_t = float(np.logaddexp(snapshot.log_t, log_q))
    return snapshot._replace(log_t=log_t, x=np.asarray(carry.y.x)[: len(snapshot.x)])


def constants(settings: ClusterSettings) -> Settings:
    """Return what the solver needs to know of an interval: it has no end in rescaled time."""
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    return Settings(number(1e300), number(1e300), jnp.zeros(0), number(settings.tolerance), number(0.0))


@eqx.filter_jit
def _pairs(flow: CoarseFlow) -> Array:
    return flow.pairs


@eqx.filter_jit
def _m(flow: CoarseFlow, x: Array) -> Array:
    return flow.forces(x)[0]


@eqx.filter_jit
def _margin(rule: AbstractStopRule, x: Array, weights: Array) -> Array:
    def velocity():
        raise ValueError(f"stop_when: method 'coarsen' takes no rule that needs the velocity, got {rule.kind}")

    return rule.margin(jnp.zeros(()), Tokens(x, weights), velocity)
