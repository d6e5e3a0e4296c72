"""The free flow in the variables `z = Phi^{-1} x`, `Phi' = V Phi` (for constant V, `Phi = e^{tV}`).

With heads h and `C_h = W_h V_h`, `V = sum_h C_h`, it follows from `x_i' = sum_h C_h sum_j P^h_ij x_j + MLP(x_i)` that
`z_i' = sum_h Phi^{-1} C_h Phi (sum_j P^h_ij z_j - z_i) + Phi^{-1} MLP(x_i)`, whatever the rows of P sum to.

Along an eigenvalue lambda of V other than the leading one mu, z may grow like `e^{(mu - lambda) t}`. In coordinates that
mix eigenvalues, the growing parts swamp the others and cancel in `Phi z`. The unknowns here are coordinates without such
cancellation, and the error of each is controlled separately.
"""

import dataclasses
import enum
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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


class Stage(enum.Enum):
    """Where attention is evaluated: at the current tokens, at the tokens at time `held`, or nowhere."""

    FREE = "free"
    DECIDED = "decided"
    UNRESOLVED = "unresolved"


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
    stage: Stage = eqx.field(static=True, default=Stage.FREE)

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
        if self.stage is Stage.UNRESOLVED:
            return jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), y)
        after = self.stage is Stage.DECIDED
        when, where = (self.held, y.then) if after else (t, y.y)
        moved = jnp.stack(self._decided(when, where, y.y) if after else self._moves(when, where, y.y))
        out = jnp.tensordot(self.shares, moved, 1) @ self.U.T
        if self.rests is not None:
            forward, back = self._exponential(t), self._exponential(-t)
            out += jnp.einsum("hni,hji->nj", moved @ forward.T, self.rests) @ back.T
        if self.model.mlp is not None:
            x, c = self._scaled(t, y.y)
            out += pushed(self.model, x, c) * jnp.exp(-c) @ self.Q @ self._exponential(-t).T
        return Held(out, None if y.then is None else jnp.zeros_like(out) if after else out)

    def _moves(self, t, y, values):
        x, c = self._scaled(t, y)
        return moves(self.model, t, x, c, values, self.weights, self.positions)

    def _decided(self, t, y, values):
        """Return the moves, or NaN unless every token attends to a single point: the variance under its attention must vanish."""
        d, both = values.shape[1], jnp.concatenate([values, values**2], axis=1)
        parts = [part + both for part in self._moves(t, y, both)]
        spread = jnp.stack([part[:, d:] - part[:, :d] ** 2 for part in parts]).max((0, 1)) / (values**2).max(0)
        return [jnp.where((spread < SPREAD).all(), part[:, :d] - values, jnp.nan) for part in parts]

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
            hidden=lambda y: jnp.array(self.stage is Stage.UNRESOLVED),
            hidden_reason=PRECISION_LOST,
            longest_step=self._longest_step,
            overflow_advice=OVERFLOW,
        )

    def _longest_step(self, t: Array, y: Any) -> Array | None:
        """Return a step limit that keeps small differences between tokens accurate until attention is held."""
        return None if self.held is None or self.stage is not Stage.FREE else 0.5 / jnp.abs(self.U).max()


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
    found = value_maps(model.attention, jnp.zeros(()), d)
    if not is_concrete(*found, *jax.tree.leaves((model, state))):  # no Schur form when traced
        flow: AbstractRescaledFlow = VaryingV(model, jnp.eye(d), state.weights, state.positions)
        return tuple(Segment(end, flow) for end in ends)
    maps = np.stack([np.asarray(C) for C in found])
    if not all(head.value.autonomous and W.autonomous for head, W in parts):
        _, Q, _ = ordered_schur(maps.sum(0), descending=True)
        flow = VaryingV(model, jnp.asarray(Q), state.weights, state.positions)
        return tuple(Segment(end, flow) for end in ends)
    U, Q, real = ordered_schur(maps.sum(0))
    alike = np.abs(real[:, None] - real) <= EQUAL * np.abs(U).max()
    maps, square = Q.T @ maps @ Q, (U * U).sum()
    shares = np.ones(1) if len(maps) == 1 else (maps * U).sum((1, 2)) / (square or 1)
    rests = maps - shares[:, None, None] * U if len(maps) > 1 else np.zeros(1)
    commute = np.abs(rests).max() <= ROUNDING * np.abs(maps).max()
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    plain = ConstantV(
        model=model,
        Q=number(Q),
        U=number(U),
        m=number(max(real[-1], 0.0)),
        alike=number(alike),
        shares=number(shares),
        rests=None if commute else tidy(number(rests)),
        weights=state.weights,
        positions=state.positions,
    )
    held, stage = when_held(model, U, real)
    if math.isinf(held) or not commute:  # heads that do not commute with V spread the growth of x to all directions
        return tuple(Segment(end, plain) for end in ends)
    before = eqx.tree_at(lambda f: f.held, plain, jnp.asarray(held), is_leaf=lambda leaf: leaf is None)
    after = dataclasses.replace(before, stage=stage)
    return tuple(Segment(end, before if end <= held else after) for end in sorted({*ends, held}))


def scaled_tokens(model: Transformer, state: Tokens, t: float) -> tuple[Float[Array, "n d"], Float[Array, ""]]:
    """Return `e^{-c} x` and c for the rescaled tokens `z = Phi^{-1} x` of a state at time t."""
    flow: Any = rescaled_segments(model, state, [math.inf])[0].flow
    y = flow.packed_at(state, t) if isinstance(flow, VaryingV) else flow.pack(state)
    return flow.scaled(jnp.asarray(t, float), y)


def when_held(model: Transformer, U: np.ndarray, real: np.ndarray) -> tuple[float, Stage]:
    """Return the time at which attention is held (infinite if rounding never matters), and the stage after it.

    Rounding matters if x grows and an eigenvalue is so small that z still depends on which token leads when x is `e^{20}`.
    Once the other eigenvalues have fallen behind, the leaders no longer change.
    """
    heads, m = model.attention.heads, float(real[-1])
    if not (m > 0 and real[0] < m / 3 and any(head.selective for head in heads)):
        return math.inf, Stage.FREE
    apart = real[-2] <= m / 2 and U[-1, -2] == 0
    lasting = model.mlp is None and all(head.selective and head.score.autonomous for head in heads)
    return (24 / m, Stage.DECIDED) if apart and lasting else (GROWN / m, Stage.UNRESOLVED)
