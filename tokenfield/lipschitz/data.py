"""Bounds on the local Lipschitz constant of softmax attention from the tokens themselves."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._check import as_float
from .._jax import in_double
from .._shown import shown
from ..attention import AbstractAttention, Softmax, heads_and_outputs
from .local import tokens_of

BLOCK = 512


class DataBounds(NamedTuple):
    """Bounds on the local constant at given tokens.

    Attributes:
        data: `sum_h |V_h| ( sqrt(n) (1 + a D) + b D )`.
        sharp_data: `sum_h |V_h| ( sqrt(c) (1 + a D/2) + b D/4 )`, c as in `data_bounds`; never above `data`.
    """

    data: float
    sharp_data: float


@in_double
def data_bounds(attention: AbstractAttention, x: Any, *, t: float = 0.0) -> DataBounds:
    """Return upper bounds on `local(attention, x).constant`, for softmax heads, masked or not (FORMULAS §6).

    For each head, `a = max_i |A x_i|`, `b = max_ij |A^T(x_i - x_j)|`, D the diameter of the tokens:

    - `data = |V| ( sqrt(n) (1 + a D) + b D )`;
    - `sharp_data = |V| ( sqrt(c) (1 + a D/2) + b D/4 )`, with c the largest column sum of the attention matrix, between 1
      and n. The attention matrix, whose rows sum to 1, has norm at most sqrt(c). A covariance of numbers with ranges D and b is
      at most `D b/4`, and one of numbers with range D and numbers g is at most `D/2 sqrt(mean g^2)`.

    With weights m_i, n becomes `1/min_i m_i` and column sums are `sum_i m_i p_ij / m_j`, in the norm of `local`. The bounds of
    heads are added, with `|W_h V_h|` for |V|.

    Args:
        attention: `Softmax`, or a `MultiHead` of softmax heads, without rules for positions.
        x: (n, d) tokens, or `Tokens` with positive weights.
        t: the time at which A(t), V(t), … are evaluated.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.data_bounds(tkf.Softmax(beta=1.0), tkf.uniform_sphere(16, 3, seed=0)).sharp_data
        3.0493446237079507
    """
    if not isinstance(attention, AbstractAttention) or not all(isinstance(head, Softmax) for head in attention.heads):
        raise ValueError(f"attention must be Softmax or a MultiHead of Softmax heads, got {shown(attention)}")
    state, time = tokens_of(x), jnp.asarray(float(as_float("t", t, 0)))
    attention.check(state.d)
    points, weights, positions = (np.asarray(a) for a in (state.x, state.weights, state.positions))
    found = []
    for head, W in heads_and_outputs(attention):
        if head.positions:
            raise ValueError("attention: these bounds are for scores <Ax, y>, without rules for positions")
        A = np.asarray(head.score.matrix(time, state.d))  # type: ignore[attr-defined]
        V = np.asarray(W(time, head.value(time, jnp.eye(state.d)))).T
        found.append(head_bounds(A, V, points, weights, positions, head.causal))
    return DataBounds(*(float(sum(column)) for column in zip(*found, strict=True)))


def head_bounds(
    A: np.ndarray, V: np.ndarray, x: np.ndarray, w: np.ndarray, positions: np.ndarray, causal: bool
) -> tuple[float, float]:
    """Return both bounds of one head, in one pass over all pairs."""
    n = len(x)
    q, centered = x @ A.T, x - x.mean(0)  # centered, so that tokens far from 0 keep accurate distances
    pulled = centered @ A
    diameter = range_ = 0.0
    columns = np.zeros(n)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        diameter = max(diameter, _farthest(centered[rows], centered))
        range_ = max(range_, _farthest(pulled[rows], pulled))
        s = q[rows] @ centered.T + np.log(w)
        if causal:
            s = np.where(positions <= positions[rows, None], s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        columns += w[rows] @ (p / p.sum(1, keepdims=True))
    most = float((columns / w).max())
    v, a = float(np.linalg.norm(V, 2)), float(np.linalg.norm(q, axis=1).max())
    data = v * (math.sqrt(1 / w.min()) * (1 + a * diameter) + range_ * diameter)
    return data, v * (math.sqrt(most) * (1 + a * diameter / 2) + range_ * diameter / 4)


def _farthest(x: np.ndarray, y: np.ndarray) -> float:
    """Return `max_ij |x_i - y_j|`; the pair is found by matrix products, and its distance is computed from the difference."""
    squares = (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T
    slack = 1e-12 * (np.abs(squares).max() + (x * x).sum(1).max() + (y * y).sum(1).max())
    i, j = np.unravel_index(np.argmax(squares), squares.shape)
    return float(np.sqrt(((x[i] - y[j]) ** 2).sum() + slack))
