"""The rescaled flow with time-dependent V(t)."""

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractRescaledFlow, Limits, largest_ratio
from .rescaled_parts import (
    GROWN,
    LARGEST_FACTOR,
    OVERFLOW,
    PRECISION_LOST,
    graded_ratio,
    moves,
    pushed,
    tidy,
    value_maps,
)


class Graded(NamedTuple):
    """`x = Q e^c y` and `Phi = Q e^c N Q_0^T`: Q orthogonal, c a vector, N upper triangular with ones on its diagonal."""

    y: Float[Array, "n d"]
    Q: Float[Array, "d d"]
    c: Float[Array, " d"]
    N: Float[Array, "d d"]


class VaryingV(AbstractRescaledFlow):
    """`z = Phi^{-1} x` with V(t). Phi is integrated in triangular form, with the growth c of every direction factored out.

    `Q^T V Q = B + S`, B upper triangular and S skew: `Q' = Q S`, `c' = diag B`, `N' = e^{-c} (B - diag B) e^c N`.
    """

    model: Transformer
    Q0: Float[Array, "d d"]
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        return Graded(state.x @ self.Q0, self.Q0, jnp.zeros(state.d), jnp.eye(state.d))

    def unpack(self, y):
        z = jax.scipy.linalg.solve_triangular(y.N, y.y.T, unit_diagonal=True).T
        return Tokens(z @ self.Q0.T, self.weights, self.positions)

    def scaled(self, t, y):
        """Return `e^{-m} x` and m, the largest c (at least 0)."""
        m = jnp.maximum(jax.lax.stop_gradient(y.c).max(), 0)  # x does not depend on m
        return (y.y * jnp.exp(y.c - m)) @ orthogonal(y.Q).T, m

    def velocity(self, t, y):
        x, m = self.scaled(t, y)
        (Q, c, N), maps, upper = self.frame(t, y.Q, y.c, y.N)
        moved = moves(self.model, t, x, m, y.y, self.weights, self.positions)
        out = y.y @ upper.T + sum(part @ graded(C, y.c).T for part, C in zip(moved, maps, strict=True))
        if self.model.mlp is not None:
            out += pushed(self.model, x, m) @ orthogonal(y.Q) * jnp.exp(-y.c)
        return Graded(out, Q, c, N)

    def frame(self, t, Q, c, N):
        """Return `(Q', c', N')`, the matrices `Q^T C_h Q`, and `e^{-c} (B - diag B) e^c`."""
        Q = orthogonal(Q)
        maps = [tidy(Q.T @ C @ Q) for C in value_maps(self.model.attention, t, len(Q))]
        total = tidy(jnp.stack(maps).sum(0))
        S = jnp.tril(total, -1) - jnp.tril(total, -1).T
        upper = graded(jnp.triu(total - S, 1), c)
        return (Q @ S, jnp.diag(total), upper @ N), maps, upper

    def packed_at(self, state: Tokens, t: float) -> Graded:
        """Return the unknowns that represent a state at time t."""
        from scipy.integrate import solve_ivp

        flat, split = ravel_pytree((self.Q0, jnp.zeros(state.d), jnp.eye(state.d)))
        right = jax.jit(lambda time, flat: ravel_pytree(self.frame(time, *split(flat))[0])[0])
        ends = [0.0, *(time for time in self.model.breakpoints if 0 < time < t), t]
        for begin, end in pairwise(ends):
            flat = solve_ivp(right, (begin, np.nextafter(end, 0)), flat, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
        Q, c, N = split(jnp.asarray(flat))
        return Graded(state.x @ self.Q0 @ N.T, Q, c, N)

    def retract(self, y):
        return y._replace(Q=orthogonal(y.Q))

    def relative_size(self, change, y0, y1, rtol, atol):
        alike = jnp.exp(-2 * jnp.abs(y1.c[:, None] - y1.c))
        tokens = graded_ratio(change.y, y0.y, y1.y, rtol, atol, alike)
        matrices = [largest_ratio(*parts, rtol, atol) for parts in ((change.Q, y0.Q, y1.Q), (change.N, y0.N, y1.N))]
        return jnp.stack([tokens, *matrices, jnp.abs(change.c).max() / (rtol + atol)]).max()

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit

    @property
    def limits(self):
        return Limits(
            contains=lambda y: ~self._hidden(y, GROWN),
            hidden=lambda y: self._hidden(y, (1 - 1e-6) * GROWN),
            hidden_reason=PRECISION_LOST,
            overflow_advice=OVERFLOW,
        )

    def _hidden(self, y, most):
        """Return True if rounding hides which token leads, as in `ConstantV`."""
        heads = self.model.attention.heads
        return (len(heads) == 1 and heads[0].selective) & (y.c.max() > most) & (y.c.min() < y.c.max() / 3)


def graded(C: Float[Array, "d d"], c: Float[Array, " d"]) -> Float[Array, "d d"]:
    """Return `e^{-c} C e^c`."""
    growth = c - c[:, None]
    return C * jnp.exp(jnp.where(C == 0, jnp.minimum(growth, LARGEST_FACTOR), growth))


def orthogonal(Q: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return the orthogonal matrix near Q, by one Newton step."""
    return 1.5 * Q - 0.5 * Q @ (Q.T @ Q)
