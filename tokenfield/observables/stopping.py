"""Stop rules: one cluster, at most k clusters, alignment, settled energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._check import as_float, count, is_concrete, number, one_of, positive
from .._shown import shown
from ..attention.sums import map_rows
from ..flows.energy import isotropic_beta, reads_of
from ..normalization import AbstractSphereNorm
from ..spaces import AbstractSpace, Sphere
from ..states import Equiangular, Tokens
from ..stop_rule import AbstractStopRule
from .interaction import normalized_energy_of
from .order import cosine_gap, order_parameter
from .safe import units

TOLERANCE = 1e-3


class AtMostClusters(AbstractStopRule):
    """Stop when `clusters(state, tol)` has at most k clusters, all of them collapsed.

    The margin is `(r^2 - D^2) / 2r`, about `r - D` near the stop, where D is the largest distance within a cluster and r the
    distance that the tolerance allows. It is negative if two clusters touch, or if k clusters do not contain all tokens.
    """

    k: int = eqx.field(static=True)
    tol: float = eqx.field(static=True)
    metric: str = eqx.field(static=True)
    space: AbstractSpace | None = None
    """The space in which distances are taken; R^d by default."""

    @property
    def kind(self):
        return "one_cluster" if self.k == 1 else f"at_most_{self.k}_clusters"

    @property
    def differentiable(self):
        return True

    @property
    def rotation_invariant(self):
        return True

    @property
    def clusters(self):
        return self.k

    def resolve(self, model, state):
        needs(self, state, Tokens, Equiangular)
        if self.metric != "auto":
            return self
        metric = "cosine" if isinstance(model.space, Sphere) else "distance"
        return AtMostClusters(self.k, self.tol, metric, model.space)

    def margin(self, t, state, velocity):
        if isinstance(state, Equiangular):
            return jnp.asarray(self.tol) if self.k >= state.n else self.tol - state.gap
        # Slightly below the tolerance, so that rounding cannot make `clusters` disagree about the state at the stop.
        points, reach, signs = state.x, self.tol * (1 - 1e-9), np.ones(state.d)
        if self.metric == "cosine":
            points, reach = units(points), (2 * self.tol) ** 0.5 * (1 - 1e-9)
        elif self.space is not None:
            signs = self.space.signs(state.d)
        if self.k == 1:
            return one_ball(points, reach, signs) / (2 * reach)
        # If the tokens have collapsed to k clusters, k balls around any k tokens of different clusters contain all tokens.
        labels, nearest = balls(jax.lax.stop_gradient(points), self.k, reach, signs)
        slack = jax.lax.cond(
            (labels >= 0).all(),
            lambda points: collapse(points, labels, reach, signs),
            lambda points: reach**2 - jnp.max(jnp.sum(signs * (points - points[nearest]) ** 2, axis=1)),
            points,
        )
        return slack / (2 * reach)


def one_ball(points: Float[Array, "n d"], reach: float, signs: np.ndarray) -> Float[Array, ""]:
    """Return `reach^2 - D^2`, where D is the largest distance between two points.

    If a point is farther than `reach` from the first one, D is only the largest distance from that one, which is cheaper.
    """
    # The product of differences from the first point has errors relative to D; that of the points themselves has not.
    y = points - points[0]
    signed = signs * y
    square = jnp.sum(signed * y, axis=1)

    def rows(y, square_y):
        return (reach**2 - (square_y[:, None] + square - 2 * y @ signed.T)).min(-1)

    n = points.shape[0]
    from_all = lambda: map_rows(rows, n, n, y, square).min()  # noqa: E731
    return jax.lax.cond((square <= reach**2).all(), from_all, lambda: (reach**2 - square).min())


def balls(
    points: Float[Array, "n d"], k: int, reach: float, signs: np.ndarray
) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """Cover points by k balls, each centered at the first point that the previous balls do not cover.

    Returns:
        For each point, its ball (-1 for none) and the index of the nearest center.
    """

    def ball(color, found):
        labels, nearest, square = found
        center = jnp.argmax(labels < 0)
        distance = jnp.sum(signs * (points - points[center]) ** 2, axis=1)
        labels = jnp.where((labels < 0) & (distance <= reach**2), color, labels)
        return labels, jnp.where(distance < square, center, nearest), jnp.minimum(distance, square)

    n = points.shape[0]
    return jax.lax.fori_loop(0, k, ball, (jnp.full(n, -1), jnp.zeros(n, int), jnp.full(n, jnp.inf)))[:2]


def collapse(
    points: Float[Array, "n d"], labels: Int[Array, " n"], reach: float, signs: np.ndarray
) -> Float[Array, ""]:
    """Return `reach^2 - D^2`, D the largest distance within a label; negative if points of two labels are within reach."""

    def rows(x, label):
        slack = reach**2 - sum(float(sign) * (x[:, k, None] - points[None, :, k]) ** 2 for k, sign in enumerate(signs))
        outside = jnp.where(slack < 0, -slack, -jnp.maximum(slack, jnp.finfo(slack.dtype).tiny))
        return jnp.where(label[:, None] == labels[None, :], slack, outside).min(-1)

    return map_rows(rows, points.shape[0], points.shape[0], points, labels).min()


class OrderAbove(AbstractStopRule):
    """Stop when the order parameter `|∫ x/|x| dmu|` is at least r."""

    r: Array

    @property
    def kind(self):
        return f"order_parameter_{float(self.r):g}"

    @property
    def differentiable(self):
        return True

    @property
    def rotation_invariant(self):
        return True

    @property
    def clusters(self):
        return None

    def resolve(self, model, state):
        return needs(self, state, Tokens, Equiangular)

    def margin(self, t, state, velocity):
        return order_parameter(state) - self.r


class CosineAbove(AbstractStopRule):
    """Stop when the mean cosine between different tokens is at least rho."""

    rho: Array

    @property
    def kind(self):
        return f"cosine_{float(self.rho):g}"

    @property
    def differentiable(self):
        return True

    @property
    def rotation_invariant(self):
        return True

    @property
    def clusters(self):
        return None

    def resolve(self, model, state):
        needs(self, state, Tokens, Equiangular)
        if isinstance(state, Tokens) and is_concrete(state.weights) and np.count_nonzero(state.weights) < 2:
            raise ValueError(f"stop_when: {self.kind} needs at least two tokens of positive weight")
        return self

    def margin(self, t, state, velocity):
        return 1 - self.rho - cosine_gap(state)


class EnergySettled(AbstractStopRule):
    """Stop when `|d log Ebar/dt|` is at most `rate`."""

    rate: Array
    beta: Array | None

    @property
    def kind(self):
        return "energy_settled"

    @property
    def differentiable(self):
        return True

    @property
    def rotation_invariant(self):
        return True

    @property
    def clusters(self):
        return None

    def resolve(self, model, state):
        needs(self, state, Tokens)
        if not isinstance(model.norm, AbstractSphereNorm):
            raise ValueError(
                "stop_when: energy_settled needs a norm that keeps directions on the sphere, such as PostLN()"
            )
        if self.beta is not None:
            return self
        beta = isotropic_beta("energy_settled", model, state.d) * reads_of(model, state.d)[0]
        return EnergySettled(self.rate, jnp.asarray(beta))

    def margin(self, t, state, velocity):
        log_energy = lambda x: jnp.log(normalized_energy_of(units(x), state.weights, self.beta))  # noqa: E731
        return self.rate - jnp.abs(jax.jvp(log_energy, (state.x,), (velocity().x,))[1])


def needs(rule: AbstractStopRule, state: object, *kinds: type) -> AbstractStopRule:
    """Return the rule if it applies to the state; otherwise raise ValueError."""
    if isinstance(state, kinds):
        return rule
    names = " and ".join(kind.__name__ for kind in kinds)
    raise ValueError(
        f"stop_when: {rule.kind} is a rule for {names}, not for {type(state).__name__}: give a function of the state"
    )


def one_cluster(tol: float = TOLERANCE, metric: str = "auto") -> AtMostClusters:
    """Stop when all tokens are in one cluster: `cosine >= 1 - tol` for every pair (in R^d, distance <= tol).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.one_cluster(tol=1e-3)
        AtMostClusters(k=1, tol=0.001, metric='auto')
    """
    return at_most_clusters(1, tol, metric)


def at_most_clusters(k: int, tol: float = TOLERANCE, metric: str = "auto") -> AtMostClusters:
    """Stop when at most k groups of `clusters(state, tol, metric)` are left, single tokens included.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.at_most_clusters(3)
        AtMostClusters(k=3, tol=0.001, metric='auto')
    """
    one_of("metric", metric, ("auto", "cosine", "distance"))
    return AtMostClusters(count("k", k), positive("tol", tol), metric)


def order_above(r: float) -> OrderAbove:
    """Stop when the order parameter `|∫ x/|x| dmu|` reaches r.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.order_above(0.99)
        OrderAbove(r=0.99)
    """
    if is_concrete(r) and not 0 < number("r", r) <= 1:
        raise ValueError(f"r must lie in (0, 1], got {shown(r)}")
    return OrderAbove(as_float("r", r, 0))


def cosine_above(rho: float) -> CosineAbove:
    """Stop when the mean cosine between different tokens reaches rho; for `Equiangular`, its rho itself.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.cosine_above(0.999)
        CosineAbove(rho=0.999)
    """
    return CosineAbove(as_float("rho", number("rho", rho, -1, 1) if is_concrete(rho) else rho, 0))


def energy_settled(rate: float = 1e-6, beta: float | None = None) -> EnergySettled:
    """Stop when the relative change of the normalized energy per unit of time is at most `rate`.

    This also holds in a metastable state: use `one_cluster` to wait for the end. By default beta is that of the model.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.energy_settled(rate=1e-8)
        EnergySettled(rate=1e-08, beta=None)
    """
    rate = positive("rate", rate) if is_concrete(rate) else rate
    return EnergySettled(as_float("rate", rate, 0), None if beta is None else as_float("beta", beta, 0))
