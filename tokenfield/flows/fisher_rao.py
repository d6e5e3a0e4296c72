"""Tokens whose weights evolve too: the Wasserstein–Fisher–Rao flow."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._shown import shown
from ..attention import Measure, Unnormalized
from ..attention.pairs import pair_sums
from ..normalization import PostLN
from ..normalization.base import unit
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, Limits, largest_ratio
from .energy import expm1_ratio


class Weighted(NamedTuple):
    """Tokens theta on the unit sphere, and the logarithms of the growth of their weights."""

    theta: Float[Array, "n d"]
    growth: Float[Array, " n"]


class FisherRaoFlow(AbstractFlow):
    """`x_i' = P sum_j m_j e^{beta<x_i,x_j>} x_j`, `m_i' = c m_i (phi_i - sum_j m_j phi_j)` (FORMULAS §2).

    The potential is `phi_i = (1/beta) sum_j m_j e^{beta<x_i,x_j>}`. Besides the tokens, the unknowns are `g_i` in
    `m_i = w_i e^{g_i} / sum_j w_j e^{g_j}`, where w are the initial weights: weights stay positive and sum to 1 exactly.
    """

    model: Transformer
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        return Weighted(unit(state.x), jnp.zeros(state.n))

    def unpack(self, y):
        return Tokens(y.theta, self.masses(y), self.positions)

    def masses(self, y: Weighted) -> Float[Array, " n"]:
        """Return the current weights."""
        largest = jax.lax.stop_gradient(jnp.max(jnp.where(self.weights > 0, y.growth, -jnp.inf)))
        m = self.weights * jnp.exp(y.growth - largest)
        return m / m.sum()

    def velocity(self, t, y):
        theta, m = unit(y.theta), self.masses(y)
        head = self.model.attention
        assert isinstance(head, Unnormalized)  # `fisher_rao_obstacle` allows no others
        drift = head.of_itself(t, Measure(theta, m, self.positions), unit=True)
        phi = (theta * relative_sums(head, t, theta, m)).sum(-1)
        rate = jnp.asarray(self.model.fisher_rao)
        inner = (theta * drift).sum(-1, keepdims=True)
        return Weighted(drift - inner * theta, rate * (phi - m @ phi))

    def retract(self, y):
        return Weighted(unit(y.theta), y.growth)

    def relative_size(self, change, y0, y1, rtol, atol):
        places = largest_ratio(change.theta, y0.theta, y1.theta, rtol, atol)
        grown = 1 + jnp.maximum(jnp.abs(y0.growth), jnp.abs(y1.growth))
        return jnp.maximum(places, jnp.max(jnp.abs(change.growth) / (atol + rtol * grown)))

    @property
    def limits(self):
        return Limits()

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit


def relative_sums(head: Unnormalized, t, x: Float[Array, "n d"], m: Float[Array, " n"]) -> Float[Array, "n d"]:
    """Return `sum_j m_j (e^s - 1)/s x_j` with `s = beta<x_i, x_j>`. Its product with x_i is `phi_i - 1/beta`, also at beta = 0."""
    least = jnp.exp(-head.log_unit)

    def kernel(s):
        small = jnp.abs(s) < 1
        near, far = jnp.where(small, s, 1.0), jnp.where(small, 1.0, s)
        return jnp.where(small, least * expm1_ratio(near), (head.phi(far) - least) / far)

    return pair_sums(kernel, False, head.score.sharpness(t, x), x, m, x)


def fisher_rao_obstacle(model: Transformer) -> str | None:
    """Return why the weights of tokens cannot evolve under a model; None if they can, or if they are fixed."""
    if model.fisher_rao is None:
        return None
    head = model.attention
    if (
        not isinstance(head, Unnormalized)
        or head.uses_positions
        or not head.score.isotropic
        or head.value.V is not None
    ):
        return "fisher_rao needs Unnormalized(beta) attention with V = I and no causal mask"
    if not isinstance(model.norm, PostLN) or model.norm.gain.g is not None:
        return f"fisher_rao needs tokens on the unit sphere, norm=PostLN(), got {shown(model.norm)}"
    if model.mlp is not None or model.noise is not None or model.context is not None:
        return "fisher_rao works with attention only: no MLP, no noise"
    return None
