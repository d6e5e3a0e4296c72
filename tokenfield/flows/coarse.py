"""Clusters that wait: tokens on the sphere in rescaled time, with forces of full relative accuracy.

The force of token j on token i is `w_j e^{-beta(1-c_ij)} P_i x_j`, divided by `Z_i` for SA: between clusters it is
exponentially small, and the self term, which is not, has no part in it. With `e^{-m} = sum_{i<j} e^{-beta(1-c_ij)}` and
`dt = e^m ds` the fastest pair moves at speed 1 in s, so steps grow to the length of a wait (FORMULAS §9). Time itself is
carried as `q = ∫ e^{m - ref} ds`, ref the value of m at the start of a stretch.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..attention import Softmax, Unnormalized
from ..normalization import PostLN
from ..normalization.base import unit
from ..transformer import Transformer
from .base import AbstractFlow, NoClosedEquation


class Waiting(NamedTuple):
    """Tokens x and the time q spent in this stretch, in units of `e^{ref + log_scale}`."""

    x: Float[Array, "n d"]
    q: Float[Array, ""]


class CoarseFlow(AbstractFlow):
    """`dx/ds = e^m dx/dt`, `dq/ds = e^{m - ref}`. Tokens of weight 0 are padding: they neither move nor pull."""

    weights: Float[Array, " n"]
    beta: Float[Array, ""]
    log_scale: Float[Array, ""]
    """`log(dt/ds) - m`: the speed of the attention that is not in the forces."""
    ref: Float[Array, ""]
    elapsed: Float[Array, ""]
    """The time before this stretch, in the units of q."""
    normalised: bool = eqx.field(static=True)

    def pack(self, state):
        return Waiting(state, jnp.zeros(()))

    def unpack(self, y):
        return y.x

    def velocity(self, t, y):
        m, forces = self.forces(unit(y.x))
        return Waiting(forces, jnp.exp(m - self.ref))

    def forces(self, x: Float[Array, "n d"]) -> tuple[Float[Array, ""], Float[Array, "n d"]]:
        """m and `e^m dx/dt`."""
        distances = squared_distances(x)
        scores = jnp.where(self.pairs, -0.5 * self.beta * distances, -jnp.inf)
        m = -jax.scipy.special.logsumexp(scores) + jnp.log(2.0)
        pull = self.weights * jnp.exp(scores + m)
        tangent = pull @ x - (pull.sum(1) - 0.5 * (pull * distances).sum(1))[:, None] * x
        if self.normalised:
            Z = self.weights + (self.weights * jnp.exp(scores)).sum(1)
            tangent = tangent / jnp.where(Z > 0, Z, 1)[:, None]
        return m, tangent

    @property
    def pairs(self) -> Bool[Array, "n n"]:
        """Which pairs of different tokens exist."""
        there = self.weights > 0
        return there[:, None] & there[None, :] & ~jnp.eye(len(there), dtype=bool)

    def retract(self, y):
        return Waiting(unit(y.x), y.q)

    def error_size(self, error, y0, y1, rtol, atol):
        """Positions to `(rtol + atol)/(1 + beta)`, because a wait changes by a factor `e^{beta x}`; time to `rtol`."""
        place = (1 + self.beta) * jnp.linalg.norm(error.x, axis=1).max() / (rtol + atol)
        return jnp.maximum(place, jnp.abs(error.q) / ((rtol + atol) * (self.elapsed + jnp.abs(y1.q))))

    @property
    def log_time_unit(self):
        return jnp.zeros(())

    def balance(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """The largest force over the largest sum of the sizes of its parts: 0 in a stationary state."""
        scores = jnp.where(self.pairs, -0.5 * self.beta * squared_distances(x), -jnp.inf)
        pull = self.weights * jnp.exp(scores - scores.max())
        tangent = pull @ x
        tangent = tangent - (tangent * x).sum(1, keepdims=True) * x
        return jnp.linalg.norm(tangent, axis=1).max() / pull.sum(1).max()


def squared_distances(x: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """`|x_i - x_j|^2` from the differences, so that small ones are right to relative accuracy."""
    return jax.lax.map(lambda row: ((x - row) ** 2).sum(-1), x)


def coarse_parameters(model: Transformer) -> tuple[Float[Array, ""], Float[Array, ""], bool]:
    """`(beta, log_scale, normalised)` of a model whose clusters can be followed in rescaled time."""
    reason = coarse_obstacle(model)
    if reason is not None:
        raise NoClosedEquation(f"method 'coarsen' cannot follow this model: {reason}")
    head = model.attention.heads[0]
    beta = head.score.sharpness(jnp.zeros(()), jnp.zeros(()))
    log_speed = jnp.log(head.value(jnp.zeros(()), jnp.ones((1, 1)))[0, 0])
    normalised = isinstance(head, Softmax)
    return beta, -log_speed - (0.0 if normalised else beta - head.log_unit), normalised


def coarse_obstacle(model: Transformer) -> str | None:
    """Why a model cannot be followed in rescaled time; None if it can."""
    head = model.attention
    if not isinstance(head, (Softmax, Unnormalized)):
        return f"it needs Softmax or Unnormalized attention, got {type(head).__name__}"
    if not isinstance(model.norm, PostLN) or model.norm.gain.g is not None:
        return f"it needs the unit sphere, norm=PostLN(), got {model.norm!r}"
    if head.causal or model.mlp is not None or model.noise is not None:
        return "a causal mask, an MLP or noise lets tokens of a cluster part again"
    if model.fisher_rao is not None:
        return "fisher_rao moves weights, and clusters are followed with fixed ones"
    if not (head.isotropic and head.score.autonomous and head.value.autonomous):
        return "it needs isotropic attention (beta, with V a number) that does not change with time"
    if not float(head.score.sharpness(jnp.zeros(()), jnp.zeros(()))) > 0:
        return "tokens attract each other only for beta > 0"
    if not float(head.value(jnp.zeros(()), jnp.ones((1, 1)))[0, 0]) > 0:
        return "tokens attract each other only for V > 0"
    return None
