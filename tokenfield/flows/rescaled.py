"""The free flow in the variables `z = Phi^{-1} x`, `Phi' = V Phi` (for constant V, `Phi = e^{tV}`).

With heads h and `C_h = W_h V_h`, `V = sum_h C_h`, it follows from `x_i' = sum_h C_h sum_j P^h_ij x_j + MLP(x_i)` that
`z_i' = sum_h Phi^{-1} C_h Phi (sum_j P^h_ij z_j - z_i) + Phi^{-1} MLP(x_i)`, whatever the rows of P sum to.

Along an eigenvalue lambda of V other than the leading one mu, z may grow like `e^{(mu - lambda) t}`. In coordinates that
mix eigenvalues, the growing parts swamp the others and cancel in `Phi z`. The unknowns here are coordinates without such
cancellation, and the error of each is controlled separately.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._check import is_concrete
from ..attention import heads_and_outputs
from ..attention.parameters import Bilinear
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractRescaledFlow, Limits, NoClosedEquation, Segment
from .rescaled_parts import (
    GROWN,
    OVERFLOW,
    PRECISION_LOST,
    ROUNDING,
    graded_ratio,
    moves,
    ordered_schur,
    pushed,
    tidy,
    value_maps,
)
from .rescaled_varying import VaryingV

SPREAD = 1e-9  # of the tokens attended to, relative to all tokens: below this, they count as one
EQUAL = 1e-9  # eigenvalues that differ by less than this, relative to V, count as equal
SQUARINGS = 40  # enough to compute e^M for |M| up to 2^40


class Held(NamedTuple):
    """Coordinates of the tokens, now and at the time `held` (equal before that time; None if attention is never held)."""

    y: Float[Array, "n d"]
    then: Float[Array, "n d"] | None


class ConstantV(AbstractRescaledFlow):
    """`z_i' = sum_h e^{-tV} C_h e^{tV} (sum_j P^h_ij z_j - z_i)`, with P at `e^{tV} z`; for one head that is V times the sum.

    The unknowns are `y = Q^T z`, where `V = Q U Q^T` is the real Schur form with eigenvalues in increasing order. Then `y_k`
    depends only on itself and the coordinates after it, and grows at least as fast as these. Scores at x are `e^{2mt}` times
    those at `e^{-mt} x`, which does not overflow if m is the largest real part of an eigenvalue (and at least 0).

    Tokens that attend to one leader keep their distance to it, while x grows like `e^{mt}`. Rounding soon hides which token
    leads, and z depends on this along small eigenvalues. Therefore attention is frozen at an earlier time, `held`, if m is a
    simple real eigenvalue, separated from the others, so that the leaders no longer change. Otherwise the run ends as
    unresolved.
    """

    model: Transformer
    Q: Float[Array, "d d"]
    U: Float[Array, "d d"]
    m: Float[Array, ""]
    alike: Float[Array, "d d"]
    """1 for pairs of coordinates whose eigenvalues have equal real parts, otherwise 0."""
    shares: Float[Array, " h"]
    rests: Float[Array, "h d d"] | None
    """`Q^T C_h Q = shares_h U + rests_h`; None if all rests are 0, so that all C_h commute with V."""
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]
    held: Float[Array, ""] | None = None
    """The time at which attention is frozen, infinite for never; None if it is known that it never is."""
    decided: Bool[Array, ""] | None = None
    """Whether the leaders no longer change after `held`; otherwise the run ends there."""
    after: bool = eqx.field(static=True, default=False)
    """True for the flow after `held`."""

    def pack(self, state):
        y = state.x @ self.Q
        return Held(y, None if self.held is None else y)

    def unpack(self, y):
        return Tokens(y.y @ self.Q.T, self.weights, self.positions)

    def scaled(self, t, y):
        """Return `e^{-mt} x` and `mt`."""
        return self._scaled(t, y.y)

    def _scaled(self, t, y):
        return y @ self._exponential(t).T @ self.Q.T, self.m * t

    def velocity(self, t, y):
        if self.after:
            moved, known = self._decided(y)
        else:
            moved, known = jnp.stack(self._moves(t, y.y, y.y)), True
        out = jnp.tensordot(self.shares, moved, 1) @ self.U.T
        if self.rests is not None:
            forward, back = self._exponential(t), self._exponential(-t)
            out += jnp.einsum("hni,hji->nj", moved @ forward.T, self.rests) @ back.T
        if self.model.mlp is not None:
            x, c = self._scaled(t, y.y)
            out += pushed(self.model, x, c) * jnp.exp(-c) @ self.Q @ self._exponential(-t).T
        out = jnp.where(known, out, jnp.nan)  # at the end: where NaN is not chosen, it must not spread to derivatives
        return Held(out, None if y.then is None else jnp.zeros_like(out) if self.after else out)

    def _moves(self, t, y, values):
        x, c = self._scaled(t, y)
        return moves(self.model, t, x, c, values, self.weights, self.positions)

    def _decided(self, y):
        """Return the moves under frozen attention, and whether every token attends to a single point, with variance 0."""
        assert self.held is not None
        assert self.decided is not None
        when, d = jnp.where(jnp.isfinite(self.held), self.held, 0.0), y.y.shape[1]
        both = jnp.concatenate([y.y, y.y**2], axis=1)
        parts = jnp.stack(self._moves(when, y.then, both)) + both
        spread = (parts[..., d:] - parts[..., :d] ** 2).max((0, 1)) / (y.y**2).max(0)
        return parts[..., :d] - y.y, self.decided & (spread < SPREAD).all()

    def _exponential(self, t):
        half = jax.scipy.linalg.expm(0.5 * t * (self.U - self.m * jnp.eye(len(self.U))), max_squarings=SQUARINGS)
        return (
            half @ half
        )  # JAX rounds the number of squarings down, one too few: without this extra one the error is up to 1e-9

    def retract(self, y):
        return y

    def relative_size(self, change, y0, y1, rtol, atol):
        return graded_ratio(change.y, y0.y, y1.y, rtol, atol, self.alike)

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit

    @property
    def limits(self):
        return Limits(
            hidden=lambda y: ~self.decided if self.after and self.decided is not None else jnp.array(False),
            hidden_reason=PRECISION_LOST,
            longest_step=self._longest_step,
            overflow_advice=OVERFLOW,
        )

    def _longest_step(self, t: Array, y: Any) -> Array | None:
        """Return a step limit that keeps small differences between tokens accurate until attention is held."""
        if self.held is None or self.after:
            return None
        return jnp.where(jnp.isfinite(self.held), 0.5 / jnp.abs(self.U).max(), jnp.inf)


def rescaled_segments(model: Transformer, state: Tokens, ends: list[Any]) -> tuple[Segment, ...]:
    """Return the flows that fit the attention: constant V, with a stage before and one after the time `held`, or varying V."""
    parts, d = heads_and_outputs(model.attention), state.d
    for head, _ in parts:
        if not head.by_scores:
            raise NoClosedEquation(
                "norm=Rescaled() needs attention that depends on scores and distances only (by_scores = True), got "
                f"{type(head).__name__}: use NoNorm()"
            )
        if isinstance(head.score, Bilinear) and head.score.biases:
            raise NoClosedEquation("norm=Rescaled() needs queries and keys without biases: use NoNorm()")
    if model.attention.bias is not None or model.attention.offsets is not None:
        raise NoClosedEquation("norm=Rescaled() needs attention without biases: use NoNorm()")
    with jax.ensure_compile_time_eval():  # inside jit too, a V that is not traced has known entries
        maps: Any = jnp.stack(value_maps(model.attention, jnp.zeros(()), d))
    maps = np.asarray(maps) if is_concrete(maps) else maps
    if not all(head.value.autonomous and W.autonomous for head, W in parts):
        _, Q, _ = ordered_schur(maps.sum(0), descending=True)
        varying = VaryingV(model, jnp.asarray(Q), state.weights, state.positions)
        return tuple(Segment(end, varying) for end in ends)
    flow, held = _constant(model, state, maps)
    if flow.held is None:
        return tuple(Segment(end, flow) for end in ends)
    after = dataclasses.replace(flow, after=True)
    if is_concrete(held):
        return tuple(Segment(end, flow if end <= held else after) for end in sorted({*ends, float(held)}))
    both = (flow, jnp.minimum), (after, jnp.maximum)  # some of these segments are empty
    return tuple(Segment(cut(end, held), part) for part, cut in both for end in ends)


def _constant(model: Transformer, state: Tokens, maps: Any) -> tuple[ConstantV, Any]:
    """Return the flow before attention is held, and the time at which it is."""
    known = is_concrete(maps)
    U, Q, real = ordered_schur(maps.sum(0))
    xp: Any = np if known else jnp
    maps = Q.T @ maps @ Q
    square = (U * U).sum()
    shares = xp.ones(1) if len(maps) == 1 else (maps * U).sum((1, 2)) / xp.where(square == 0, 1.0, square)
    rests = maps - shares[:, None, None] * U if len(maps) > 1 else None
    commute = True if rests is None else xp.abs(rests).max() <= ROUNDING * xp.abs(maps).max()
    if rests is not None:
        rests = None if known and commute else tidy(jnp.asarray(rests), jnp.where(commute, jnp.inf, ROUNDING))
    held, decided = when_held(model, real, commute)
    never = is_concrete(held) and held == math.inf
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    flow = ConstantV(
        model=model,
        Q=number(Q),
        U=number(U),
        m=number(xp.maximum(real[-1], 0.0)),
        alike=number(xp.abs(real[:, None] - real) <= EQUAL * jax.lax.stop_gradient(xp.abs(U).max())),
        shares=number(shares),
        rests=rests,
        weights=state.weights,
        positions=state.positions,
        held=None if never else number(held),
        decided=None if never else jnp.asarray(decided),
    )
    return flow, held


def scaled_tokens(model: Transformer, state: Tokens, t: float) -> tuple[Float[Array, "n d"], Float[Array, ""]]:
    """Return `e^{-c} x` and c for the rescaled tokens `z = Phi^{-1} x` of a state at time t."""
    flow: Any = rescaled_segments(model, state, [math.inf])[0].flow
    y = flow.packed_at(state, t) if isinstance(flow, VaryingV) else flow.pack(state)
    return flow.scaled(jnp.asarray(t, float), y)


def when_held(model: Transformer, real: Any, commute: Any) -> tuple[Any, Any]:
    """Return the time at which attention is held (infinite if rounding never matters), and whether it is decided then.

    Rounding matters if x grows and an eigenvalue is so small that z still depends on which token leads when x is `e^{20}`.
    Once the other eigenvalues have fallen behind, the leaders no longer change. Heads that do not commute with V spread the
    growth of x to all directions.

    Args:
        real: the real parts of the eigenvalues of V, in increasing order.
        commute: whether all heads commute with V.
    """
    heads, m = model.attention.heads, real[-1]
    if not any(head.selective for head in heads):
        return math.inf, False
    lasting = model.mlp is None and all(head.selective and head.score.autonomous for head in heads)
    decided = (real[-2:][0] <= m / 2) & lasting
    xp: Any = np if is_concrete(real, commute) else jnp
    growth = xp.where(decided, 24.0, GROWN)
    return xp.where((m > 0) & (real[0] < m / 3) & commute, growth / xp.where(m > 0, m, 1.0), math.inf), decided
