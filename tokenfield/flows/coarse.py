"""Metastable clusters: tokens on the sphere in rescaled time, with forces that have full relative accuracy.

The force of token j on token i is `w_j e^{-beta(1-c_ij)} P_i x_j`, divided by `Z_i` for SA. Between clusters it is
exponentially small. The self term, which is not small, does not contribute. With
`e^{-m} = sum_{i<j} e^{-beta(1-c_ij)}` and `dt = e^m ds`, the fastest pair moves at speed 1 in s, so steps grow to the
time between two merges (FORMULAS §9). Time is `q = ∫ e^{m - ref} ds`, where ref is m at the start of an interval.

A token of weight 0 exerts no force. Under USA it feels the same forces as the others. Under SA its `Z_i` has no self term
and is as small as the forces, so it moves at speed 1, however far away the others are, until it joins a cluster. While
there is such a token, time is not rescaled (`passive`).
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._shown import shown
from ..attention import AbstractHead, Softmax, Unnormalized
from ..normalization import PostLN
from ..normalization.base import unit
from ..transformer import Transformer
from .base import AbstractFlow, Limits, NoClosedEquation


class CoarseState(NamedTuple):
    """Tokens x, and the time q since the start of this interval, in units of `e^{ref + log_scale}`."""

    x: Float[Array, "n d"]
    q: Float[Array, ""]


class CoarseFlow(AbstractFlow):
    """`dx/ds = e^m dx/dt`, `dq/ds = e^{m - ref}`. Tokens that are not `present` are padding: they neither move nor exert forces."""

    weights: Float[Array, " n"]
    present: Bool[Array, " n"]
    beta: Float[Array, ""]
    log_scale: Float[Array, ""]
    """`log(dt/ds) - m`: the factor of the attention's speed that the forces leave out."""
    ref: Float[Array, ""]
    elapsed: Float[Array, ""]
    """The time before this interval, in the units of q."""
    normalized: bool = eqx.field(static=True)
    passive: bool = eqx.field(static=True)
    """True if there are tokens of weight 0 under SA; then m = 0."""

    def pack(self, state):
        return CoarseState(state, jnp.zeros(()))

    def unpack(self, y):
        return y

    def velocity(self, t, y):
        m, forces = self.forces(unit(y.x))
        return CoarseState(forces, jnp.exp(m - self.ref))

    def forces(self, x: Float[Array, "n d"]) -> tuple[Float[Array, ""], Float[Array, "n d"]]:
        """Return m and `e^m dx/dt`."""
        distances = squared_distances(x)
        scores = jnp.where(self.pulls, -0.5 * self.beta * distances, -jnp.inf)
        if self.passive:
            m, free = jnp.zeros(()), self.present & (self.weights == 0)
            scores = scores - jnp.where(free, scores.max(1), 0.0)[:, None]  # a common factor of the forces and Z
        else:
            m = -jax.scipy.special.logsumexp(jnp.maximum(scores, scores.T)) + jnp.log(2.0)
        pull = self.weights * jnp.exp(scores + m)
        tangent = pull @ x - (pull.sum(1) - 0.5 * (pull * distances).sum(1))[:, None] * x
        if self.normalized:
            Z = self.weights + (self.weights * jnp.exp(scores)).sum(1)
            tangent = tangent / jnp.where(Z > 0, Z, 1)[:, None]
        return m, tangent

    @property
    def pairs(self) -> Bool[Array, "n n"]:
        """Mask of the pairs of different tokens that are not padding."""
        return self.present[:, None] & self.present[None, :] & ~jnp.eye(len(self.present), dtype=bool)

    @property
    def pulls(self) -> Bool[Array, "n n"]:
        """Mask of the forces: which tokens (rows) feel which others (columns)."""
        return self.pairs & (self.weights > 0)[None, :]

    def retract(self, y):
        return CoarseState(unit(y.x), y.q)

    def relative_size(self, change, y0, y1, rtol, atol):
        """Measure positions relative to `(rtol + atol)/(1 + beta)`, as merge times vary like `e^{beta x}`, and time to `rtol`."""
        place = (1 + self.beta) * jnp.linalg.norm(change.x, axis=1).max() / (rtol + atol)
        return jnp.maximum(place, jnp.abs(change.q) / ((rtol + atol) * (self.elapsed + jnp.abs(y1.q))))

    @property
    def limits(self):
        return Limits()

    @property
    def log_time_unit(self):
        return jnp.zeros(())

    def log_time(self, y: CoarseState) -> Float[Array, ""]:
        """Return the logarithm of the time t."""
        return self.ref + self.log_scale + jnp.log(self.elapsed + y.q)

    def balance(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Return the largest force, relative to the largest sum of the sizes of its terms: 0 in a stationary state.

        Under SA, the speed of tokens of weight 0 is used instead.
        """
        rows = self.present & (self.weights > 0) if self.passive else self.present
        scores = jnp.where(self.pulls & rows[:, None], -0.5 * self.beta * squared_distances(x), -jnp.inf)
        pull = self.weights * jnp.exp(scores - jnp.maximum(scores.max(), -1e300))
        tangent = pull @ x
        tangent = tangent - (tangent * x).sum(1, keepdims=True) * x
        parts = pull.sum(1).max()
        found = jnp.linalg.norm(tangent, axis=1).max() / jnp.where(parts > 0, parts, 1)
        if not self.passive:
            return found
        speed = jnp.linalg.norm(self.forces(x)[1], axis=1)
        return jnp.maximum(found, jnp.where(rows, 0.0, speed).max())


def squared_distances(x: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """Return `|x_i - x_j|^2` from the differences, so that small ones keep full relative accuracy."""
    return jax.lax.map(lambda row: ((x - row) ** 2).sum(-1), x)


def coarse_parameters(model: Transformer) -> tuple[float, float, bool]:
    """Return `(beta, log_scale, normalized)` of a model whose clusters can be followed in rescaled time."""
    reason = coarse_obstacle(model)
    if reason is not None:
        raise NoClosedEquation(f"method 'coarsen' cannot follow this model: {reason}")
    head = model.attention.heads[0]
    beta, V = coarse_numbers(head)
    normalized = isinstance(head, Softmax)
    return beta, -math.log(V) - (0.0 if normalized else beta - float(head.log_unit)), normalized


def coarse_numbers(head: AbstractHead) -> tuple[float, float]:
    """Return beta and V of an isotropic head that does not change with time. This compiles nothing."""
    V = 1.0 if head.value.V is None else float(head.value.V)  # type: ignore[arg-type]
    return float(head.score.factor) * float(head.score.beta), V  # type: ignore[arg-type]


def coarse_obstacle(model: Transformer) -> str | None:
    """Return why a model cannot be followed in rescaled time, or None if it can."""
    head = model.attention
    if model.depth is not None:
        return "its weights change from layer to layer"
    if not isinstance(head, (Softmax, Unnormalized)):
        return f"it needs Softmax or Unnormalized attention, got {type(head).__name__}"
    if not isinstance(model.norm, PostLN) or model.norm.gain.g is not None:
        return f"it needs the unit sphere, norm=PostLN(), got {shown(model.norm)}"
    if head.uses_positions or not (model.mlp is None and model.noise is None and model.context is None):
        return "with a causal mask, rules for positions, an MLP, noise or a context, the tokens of a cluster may separate again"
    if model.fisher_rao is not None:
        return "fisher_rao changes the weights, but clusters are followed with fixed weights"
    if not (head.isotropic and head.score.autonomous and head.value.autonomous):
        return "it needs isotropic attention (beta, with V a number) that does not change with time"
    beta, V = coarse_numbers(head)
    if not beta > 0:
        return f"tokens attract each other only for beta > 0, got beta = {beta:g}"
    if not V > 0:
        return f"tokens attract each other only for V > 0, got V = {V:g}"
    return None
