"""Stop rules: one cluster, few clusters, aligned, settled."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import as_float, count, positive
from ..attention.sums import map_rows
from ..normalization import AbstractSphereNorm
from ..normalization.base import unit
from ..solve.stop import AbstractStopRule
from ..states import Equiangular, Tokens
from .interaction import normalized_energy_of, quadratic_form


class AtMostClusters(AbstractStopRule):
    """Holds when `clusters(state, tol)` has at most k clusters, all of them collapsed."""

    k: int = eqx.field(static=True)
    tol: float = eqx.field(static=True)
    metric: str = eqx.field(static=True)

    @property
    def kind(self):
        return "one_cluster" if self.k == 1 else f"at_most_{self.k}_clusters"

    def resolve(self, model, state):
        needs(self, state, Tokens, Equiangular)
        if self.metric != "auto":
            return self
        metric = "cosine" if isinstance(model.norm, AbstractSphereNorm) else "distance"
        return AtMostClusters(self.k, self.tol, metric)

    def __call__(self, t, state, velocity):
        if isinstance(state, Equiangular):
            return (state.gap <= self.tol) | (self.k >= state.n)
        # A hair within the tolerance, so that rounding cannot make `clusters` disagree about the state at the stop.
        points, reach = state.x, self.tol * (1 - 1e-9)
        if self.metric == "cosine":
            points, reach = unit(points), (2 * self.tol) ** 0.5 * (1 - 1e-9)

        if self.k == 1:
            near = (jnp.linalg.norm(points - points[0], axis=1) <= reach).all()
            together = jnp.zeros(points.shape[0], int)
            return jax.lax.cond(near, lambda: _collapsed(points, together, reach), lambda: jnp.array(False))

        # If the tokens have collapsed to k clusters, k balls around any k tokens of different clusters hold them all.
        def ball(_, carry):
            labels, colour = carry
            centre = points[jnp.argmax(labels < 0)]
            near = (labels < 0) & (jnp.linalg.norm(points - centre, axis=1) <= reach)
            return jnp.where(near, colour, labels), colour + 1

        labels, _ = jax.lax.fori_loop(0, self.k, ball, (jnp.full(points.shape[0], -1), 0))
        return jax.lax.cond((labels >= 0).all(), lambda: _collapsed(points, labels, reach), lambda: jnp.array(False))


def _collapsed(points: Float[Array, "n d"], labels: Array, reach: float) -> Array:
    """Tokens of one label within reach of each other, tokens of two labels out of it."""

    def rows(x, label):
        square = sum((x[:, k, None] - points[None, :, k]) ** 2 for k in range(points.shape[1]))
        return ((square <= reach**2) == (label[:, None] == labels[None, :])).all(-1)

    return map_rows(rows, points.shape[0], points.shape[0], points, labels).all()


class OrderAbove(AbstractStopRule):
    """Holds when the order parameter `|∫ x/|x| dmu|` is at least r."""

    r: Array

    @property
    def kind(self):
        return f"order_parameter_{float(self.r):g}"

    def resolve(self, model, state):
        return needs(self, state, Tokens, Equiangular)

    def __call__(self, t, state, velocity):
        if isinstance(state, Equiangular):
            return 1 - (state.n - 1) / state.n * state.gap >= self.r**2
        return jnp.linalg.norm(state.weights @ unit(state.x)) >= self.r


class CosineAbove(AbstractStopRule):
    """Holds when the mean cosine between different tokens is at least rho."""

    rho: Array

    @property
    def kind(self):
        return f"cosine_{float(self.rho):g}"

    def resolve(self, model, state):
        return needs(self, state, Tokens, Equiangular)

    def __call__(self, t, state, velocity):
        if isinstance(state, Equiangular):
            return state.gap <= 1 - self.rho
        theta, w = unit(state.x), state.weights
        same = w * w @ (theta * theta).sum(-1)
        return jnp.sum((w @ theta) ** 2) - same >= self.rho * (1 - w @ w)


class EnergySettled(AbstractStopRule):
    """Holds when `d log Ebar/dt` is at most `rate` in size."""

    rate: Array
    beta: Array | None

    @property
    def kind(self):
        return "energy_settled"

    def resolve(self, model, state):
        needs(self, state, Tokens)
        if not isinstance(model.norm, AbstractSphereNorm):
            raise ValueError("energy_settled needs a norm that keeps directions on the sphere")
        if self.beta is not None:
            return self
        A, beta = quadratic_form(model, state.d)
        if A is not None:
            raise ValueError("energy_settled needs isotropic attention, or beta given")
        return EnergySettled(self.rate, jnp.asarray(beta))

    def __call__(self, t, state, velocity):
        beta = jnp.asarray(self.beta)
        log_energy = lambda x: jnp.log(normalized_energy_of(unit(x), state.weights, beta))  # noqa: E731
        return jnp.abs(jax.jvp(log_energy, (state.x,), (velocity().x,))[1]) <= self.rate


def needs(rule: AbstractStopRule, state: object, *kinds: type) -> AbstractStopRule:
    """The rule, if it makes sense for a state; a ValueError otherwise."""
    if isinstance(state, kinds):
        return rule
    names = " and ".join(kind.__name__ for kind in kinds)
    raise ValueError(
        f"stop_when: {rule.kind} is a rule for {names}, not for {type(state).__name__}: give a function of the state"
    )


def one_cluster(tol: float = 1e-3, metric: str = "auto") -> AtMostClusters:
    """Stop when all tokens are in one cluster: every pair within `cosine >= 1 - tol` (in R^d, distance <= tol).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.one_cluster(tol=1e-3)
    """
    return at_most_clusters(1, tol, metric)


def at_most_clusters(k: int, tol: float = 1e-3, metric: str = "auto") -> AtMostClusters:
    """Stop when the tokens have collapsed to at most k clusters, in the sense of `clusters(state, tol, metric)`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.at_most_clusters(3)
    """
    if metric not in ("auto", "cosine", "distance"):
        raise ValueError(f'metric must be "auto", "cosine" or "distance", got {metric!r}')
    return AtMostClusters(count("k", k), positive("tol", tol), metric)


def order_above(r: float) -> OrderAbove:
    """Stop when the order parameter `|∫ x/|x| dmu|` reaches r.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.order_above(0.99)
    """
    if not 0 < float(r) <= 1:
        raise ValueError(f"r must lie in (0, 1], got {r!r}")
    return OrderAbove(as_float("r", r, 0))


def cosine_above(rho: float) -> CosineAbove:
    """Stop when the mean cosine between different tokens reaches rho; for `Equiangular`, its rho itself.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.cosine_above(0.999)
    """
    if not -1 <= float(rho) <= 1:
        raise ValueError(f"rho must lie in [-1, 1], got {rho!r}")
    return CosineAbove(as_float("rho", rho, 0))


def energy_settled(rate: float = 1e-6, beta: float | None = None) -> EnergySettled:
    """Stop when the normalized energy changes by less than `rate`, relative, in a unit of time.

    A metastable state settles too: use `one_cluster` to wait for the end. beta is the model's own by default.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.energy_settled(rate=1e-8)
    """
    return EnergySettled(
        as_float("rate", positive("rate", rate), 0), None if beta is None else as_float("beta", beta, 0)
    )
