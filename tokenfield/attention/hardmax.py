"""Hardmax attention: softmax at infinite beta."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._check import flag, one_of, positive
from .._types import Map, Values
from .base import AbstractGeneralHead
from .parameters import Bilinear, ValueMap
from .positions import Positions, Rules, as_rules, biased, check_rules, rotated, visible
from .sums import divide, map_rows, row_max


class Hardmax(AbstractGeneralHead):
    """Hardmax attention: the weighted mean over `C_i = argmax_j <A x_i, x_j>`, including ties (FORMULAS §9).

    Args:
        rule: "self" lets a token attend to itself (a leader has C_i = {i}); "others" excludes all tokens at the same point,
            `|x_j - x_i| <= tie (1 + |x_i|)` (if no other tokens are left, the token attends to itself).
        tie: scores within `tie * (1 + |max|)` of the largest count as equal to it.
        A, Q, K, V, causal, positions: as in `Softmax`; the scale of A does not matter.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Hardmax(A=[[1.0, 0.0], [0.0, 2.0]], rule="others")
        Hardmax(A=[[1.0, 0.0], [0.0, 2.0]], rule='others')
    """

    score: Bilinear
    value: ValueMap
    causal: bool = eqx.field(static=True)
    positions: Rules  # type: ignore[misc]
    rule: str = eqx.field(static=True)
    tie: float = eqx.field(static=True)
    kind: ClassVar[str] = "hardmax"
    title: ClassVar[str] = "hardmax attention"
    normalized: ClassVar[bool] = True  # type: ignore[misc]
    by_scores: ClassVar[bool] = True

    def __init__(
        self,
        *,
        A: Map = None,
        Q: Map = None,
        K: Map = None,
        V: Values = None,
        causal: bool = False,
        positions: Positions = None,
        rule: str = "self",
        tie: float = 1e-9,
    ):
        self.score = Bilinear(None, A, Q, K)
        self.value = ValueMap(V)
        self.causal = flag("causal", causal)
        self.positions = as_rules(positions)
        self.rule = one_of("rule", rule, ("self", "others"))
        self.tie = positive("tie", tie, or_zero=True)

    def average(self, t, x, mu, positions, values):
        check_rules(self.positions, len(x), len(mu.x))
        q, k, _ = self.score.factors(t, x, mu.x)
        q, k = rotated(self.positions, q, positions), rotated(self.positions, k, mu.positions)

        def rows(q, position, x_rows, row):
            s = biased(self.positions, q @ k.T, position, mu.positions, row)
            mask = visible(self.positions, self.causal, position, mu.positions)
            seen = jnp.broadcast_to(mu.weights if mask is None else jnp.where(mask, mu.weights, 0), s.shape)
            if self.rule == "others":
                reach = self.tie * (1 + jnp.linalg.norm(x_rows, axis=-1, keepdims=True))
                apart = jnp.square(x_rows[:, None, :] - mu.x).sum(-1) > reach**2
                alone = ~(apart & (seen > 0)).any(-1, keepdims=True)
                seen = jnp.where(apart | alone, seen, 0)
            top = row_max(s, seen > 0)
            c = jnp.where(s >= top - self.tie * (1 + jnp.abs(top)), seen, 0 * top)  # 0, or NaN where the scores are
            return divide(c @ values, c.sum(-1, keepdims=True))

        return map_rows(rows, len(x), len(mu.x), q, positions, x, jnp.arange(len(x)))
