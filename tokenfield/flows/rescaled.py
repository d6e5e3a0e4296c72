"""The free flow in the variables `z = Phi^{-1} x`, `Phi' = V Phi` (for constant V, `Phi = e^{tV}`).

From `x_i' = sum_j P_ij V x_j` follows `z_i' = Phi^{-1} V Phi (sum_j P_ij z_j - z_i)`, whatever the rows of P sum to.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..attention import AbstractHead
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, NoClosedEquation, largest_ratio
from .free import AbstractPointsFlow

LARGEST_FACTOR = 600.0  # scores are multiplied by at most e^600: beyond, attention is hardmax to the last bit


class ConstantV(AbstractPointsFlow):
    """`z_i' = V (sum_j P_ij z_j - z_i)`, P at `e^{tV} z`; scores there are `e^{2 mu t}` times those at
    `e^{t(V - mu I)} z`, which does not overflow when mu is the largest real part of an eigenvalue of V."""

    head: AbstractHead
    V: Float[Array, "d d"]
    mu: Float[Array, ""]
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def velocity(self, t, y):
        M = jax.scipy.linalg.expm(t * (self.V - self.mu * jnp.eye(self.V.shape[0])))
        return moved(self.head, t, y, M, self.mu * t, self.weights, self.positions) @ self.V.T

    @property
    def log_time_unit(self):
        return -self.head.log_unit


class Moving(NamedTuple):
    """z, and `Phi = e^c M` with |M| constant."""

    z: Float[Array, "n d"]
    M: Float[Array, "d d"]
    c: Float[Array, ""]


class VaryingV(AbstractFlow):
    """`z_i' = Phi^{-1} V Phi (sum_j P_ij z_j - z_i)` with V(t), Phi carried along as `e^c M`."""

    head: AbstractHead
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        return Moving(state.x, jnp.eye(state.d), jnp.zeros(()))

    def unpack(self, y):
        return Tokens(y.z, self.weights, self.positions)

    def velocity(self, t, y):
        V = self.head.value.matrix(t, y.M.shape[0])
        VM = V @ y.M
        rate = (y.M * VM).sum() / (y.M * y.M).sum()
        difference = moved(self.head, t, y.z, y.M, y.c, self.weights, self.positions)
        return Moving(difference @ jnp.linalg.solve(y.M, VM).T, VM - rate * y.M, rate)

    def retract(self, y):
        return y

    def error_size(self, error, y0, y1, rtol, atol):
        size = largest_ratio(error.z, y0.z, y1.z, rtol, atol)
        return jnp.maximum(size, largest_ratio(error.M, y0.M, y1.M, rtol, atol))

    @property
    def log_time_unit(self):
        return -self.head.log_unit


def moved(head, t, z, M, c, weights, positions) -> Float[Array, "n d"]:
    """`sum_j P_ij z_j - z_i`, P the attention matrix at the tokens `e^c M z`."""
    factor = jnp.exp(jnp.minimum(2 * c, LARGEST_FACTOR))
    sharper = eqx.tree_at(lambda h: h.score.factor, head, factor)
    return sharper.average(t, z @ M.T, weights, positions, z) - z


def rescaled_flow(model: Transformer, state: Tokens) -> AbstractFlow:
    """The flow that fits the attention: constant or varying V."""
    if model.mlp is not None:
        raise NoClosedEquation("Rescaled is a change of variables of pure attention: it takes no MLP")
    if not isinstance(model.attention, AbstractHead):
        raise NoClosedEquation("Rescaled needs a single head, whose V defines z = e^{-tV} x: use NoNorm()")
    head, d = model.attention, state.d
    if not head.value.autonomous:
        return VaryingV(head, state.weights, state.positions)
    V = head.value.matrix(jnp.zeros(()), d)
    mu = jnp.asarray(np.linalg.eigvals(np.asarray(V)).real.max())
    return ConstantV(head=head, V=V, mu=mu, weights=state.weights, positions=state.positions)
