"""Bounds on the Lipschitz constant of softmax attention."""

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, count, positive
from ..attention import AbstractAttention, Softmax
from ..attention.parameters import Bilinear
from ..theory.ball_bounds import Bounds, ball_bounds, matrices
from ..transformer import Transformer
from .data import head_bounds


def bounds(
    A: ArrayLike, V: ArrayLike | None, R: float, n: int, *, d: int | None = None, x: ArrayLike | None = None
) -> Bounds:
    """Return bounds on the local Lipschitz constants of n tokens within radius R (FORMULAS §6).

    Norm `|X|^2 = sum_i |x_i|^2`, operator norms |A|, |V|:

    - `upper = sqrt(3) |V| ( |A|^2 R^4 (4n+1) + n )^{1/2}`;
    - `sharp_upper = |V| ( sqrt(n) (1 + |A|R^2) + |A|R^2 )`, an upper bound on `sharp_data` in the ball;
    - `lower`, the larger of `sqrt(n-1) / (1 + (n-1) e^{-R^2 g}) max_{e ⊥ Au, |e|=1} |Ve|` and |V|, with g and u from
      `score_gap`: tokens 2…n at R u put weight `p = 1/(1 + (n-1) e^{-R^2 g})` on token 1 at `R Au/|Au|`, and moving token 1
      along e, which changes none of their scores, moves the other n-1 outputs by `p Ve`. Under a mask the weight only grows.
      And n tokens at one point that move together by e stay together, so all outputs move by Ve, masked or not;
    - `mean_field = |V| (1 + 3|A|R^2) e^{2|A|R^2}`.

    Args:
        A: (d, d) score matrix, or a number a for a I.
        V: (dv, d) value matrix, a number, or None for the identity.
        R: radius of the ball that contains the tokens.
        n: number of tokens.
        d: dimension of the tokens if neither A nor V is a matrix; None covers every d >= 2.
        x: (n, d) tokens, all within R, for the bounds `data` and `sharp_data`; these are None without x.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.bounds([[-1.0, 0.0], [0.0, 0.5]], None, R=1.5, n=5)[:3]  # upper, lower, mean field
        (18.27395687857449, 1.9149091246527365, 697.632767579044)
    """
    R, n = positive("R", R, or_zero=True), count("n", n)
    points = None if x is None else _inside(x, R, n, d)
    A, V = matrices(A, V, d if points is None else points.shape[1], whole=points is not None)
    found = ball_bounds(A, V, R, n)
    if points is None:
        return found
    data, sharp_data = head_bounds(A, V, points, np.full(n, 1 / n), np.arange(n), causal=False)
    return found._replace(data=data, sharp_data=sharp_data)


def attention_bounds(attention: AbstractAttention | Transformer, R: float, n: int, d: int) -> Bounds | None:
    """Return `bounds` for one head of softmax attention at t = 0; None for other attentions."""
    if not isinstance(attention, Softmax) or not isinstance(attention.score, Bilinear):
        return None
    if attention.positions or attention.score.biases:
        return None
    t = jnp.zeros(())
    return bounds(attention.score.matrix(t, d), np.asarray(attention.value(t, jnp.eye(d))).T, R, n)


def _inside(x: ArrayLike, R: float, n: int, d: int | None) -> np.ndarray:
    """Return the tokens as an array; raise ValueError unless all are within R."""
    points = np.asarray(as_float("x", x, 2))
    wanted = points.shape[1] if d is None else d
    if points.shape != (n, wanted):
        raise ValueError(f"x must have shape ({n}, {'d' if d is None else d}), got {points.shape}")
    longest = np.linalg.norm(points, axis=1).max()
    if longest > R * (1 + 1e-12):
        raise ValueError(f"x must lie within R = {R:g}, got a token of length {longest:.6g}")
    return points
