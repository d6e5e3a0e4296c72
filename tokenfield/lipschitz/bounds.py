"""Bounds on the Lipschitz constant of softmax attention."""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, count, positive
from ..attention import AbstractAttention, Softmax
from ..attention.parameters import Bilinear
from ..transformer import Transformer
from .data import head_bounds
from .gap import score_gap


class Bounds(NamedTuple):
    """Bounds on the Lipschitz constant of one softmax layer.

    Attributes:
        upper: no n tokens in the ball of radius R have a larger local constant; masked attention included.
        lower: some n tokens in that ball have at least this local constant; masked attention included.
        mean_field: bound for measures in the ball, in every Wasserstein distance W_p; independent of n. Infinite
            where it leaves double precision.
        gap: `g = max_{|u|<=1} (|Au| - <u,Au>)`, which drives the lower bound.
        notes: what to know about these numbers.
        log_mean_field: the logarithm of mean_field, always finite (but for V = 0).
        sharp_upper: as upper, and never above it: `|V| ( sqrt(n) (1 + |A|R^2) + |A|R^2 )`.
        data: for the tokens x alone, masked or not (None without x): see `data_bounds`.
        sharp_data: as data, and never above it; without a mask.
    """

    upper: float
    lower: float
    mean_field: float
    gap: float
    notes: tuple[str, ...]
    log_mean_field: float
    sharp_upper: float
    data: float | None = None
    sharp_data: float | None = None


def bounds(
    A: ArrayLike, V: ArrayLike | None, R: float, n: int, *, d: int | None = None, x: ArrayLike | None = None
) -> Bounds:
    """What holds for every n tokens within radius R, and what some of them attain (FORMULAS §6).

    Norm `|X|^2 = sum_i |x_i|^2`, operator norms |A|, |V|:

    - `upper = sqrt(3) |V| ( |A|^2 R^4 (4n+1) + n )^{1/2}`;
    - `sharp_upper = |V| ( sqrt(n) (1 + |A|R^2) + |A|R^2 )`, which is what `sharp_data` can be at most in the ball;
    - `lower = sqrt(n-1) / (1 + (n-1) e^{-R^2 g}) max_{e ⊥ Au, |e|=1} |Ve|`, with g and u from `score_gap`:
      tokens 2…n at R u put weight `p = 1/(1 + (n-1) e^{-R^2 g})` on token 1 at `R Au/|Au|`, and moving that one
      along e, which no score sees, moves the other n-1 outputs by `p Ve`. Under a mask the weight only grows;
    - `mean_field = |V| (1 + 3|A|R^2) e^{2|A|R^2}`.

    Args:
        A: (d, d) score matrix, or a number a for a I.
        V: (dv, d) value matrix, a number, or None for the identity.
        R: radius of the ball that holds the tokens.
        n: number of tokens.
        d: dimension of the tokens, where neither A nor V is a matrix [any d >= 2].
        x: (n, d) tokens, all within R, for the bounds that depend on them.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.bounds([[-1.0, 0.0], [0.0, 0.5]], None, R=1.5, n=5)
    """
    R, n = positive("R", R, or_zero=True), count("n", n)
    points = None if x is None else _inside(x, R, n, d)
    A, V = _matrices(A, V, d if points is None else points.shape[1], whole=points is not None)
    a, v = (float(np.linalg.norm(matrix, 2)) for matrix in (A, V))
    notes = []

    upper = math.sqrt(3) * v * math.hypot(a * R**2 * math.sqrt(4 * n + 1), math.sqrt(n))
    g, u = score_gap(A, across=np.linalg.svd(V)[2][0])
    factor = _across(V, A @ u)
    lower = factor * math.sqrt(n - 1) / (1 + (n - 1) * math.exp(-(R**2) * g))
    if n == 1:
        notes.append(f"lower is 0 for one token, which needs a second to move; its constant is |V| = {v:.6g}")
    elif factor < v * (1 - 1e-12):
        notes.append(f"lower carries the factor {factor:.6g} = max |Ve| over unit e ⊥ Au, less than |V| = {v:.6g}")

    logarithm = (math.log(v) if v > 0 else -math.inf) + math.log1p(3 * a * R**2) + 2 * a * R**2
    mean_field = math.exp(logarithm) if logarithm < math.log(np.finfo(float).max) else math.inf
    if math.isinf(mean_field):
        notes.append(f"mean_field = e^{logarithm:.6g} leaves double precision: see log_mean_field")
    sharp = v * (math.sqrt(n) * (1 + a * R**2) + a * R**2)
    found = Bounds(upper, lower, mean_field, g, tuple(notes), logarithm, sharp)
    if points is None:
        return found
    data, sharp_data = head_bounds(A, V, points, np.full(n, 1 / n), np.arange(n), causal=False)
    return found._replace(data=data, sharp_data=sharp_data)


def attention_bounds(attention: AbstractAttention | Transformer, R: float, n: int, d: int) -> Bounds | None:
    """`bounds` for one head of softmax attention at t = 0; None for other attentions."""
    if not isinstance(attention, Softmax) or not isinstance(attention.score, Bilinear):
        return None
    t = jnp.zeros(())
    return bounds(attention.score.matrix(t, d), np.asarray(attention.value(t, jnp.eye(d))).T, R, n)


def _inside(x: ArrayLike, R: float, n: int, d: int | None) -> np.ndarray:
    """The tokens as an array, all within R."""
    points = np.asarray(as_float("x", x, 2))
    wanted = points.shape[1] if d is None else d
    if points.shape != (n, wanted):
        raise ValueError(f"x must have shape ({n}, {'d' if d is None else d}), got {points.shape}")
    longest = np.linalg.norm(points, axis=1).max()
    if longest > R * (1 + 1e-12):
        raise ValueError(f"x must lie within R = {R:g}, got a token of length {longest:.6g}")
    return points


def _across(V: np.ndarray, direction: np.ndarray) -> float:
    """`max |Ve|` over unit vectors e orthogonal to a direction (over all of them if it is 0, or if d = 1).

    On the line no e is orthogonal, but moving token 1 along Au itself moves each other output by
    `p (1 + (1-p) R^2 g) |V|`, so |V| is safe there.
    """
    length = np.linalg.norm(direction)
    if length > 0 and len(direction) > 1:
        w = direction / length
        V = V - np.outer(V @ w, w)
    return float(np.linalg.norm(V, 2))


def _matrices(A: ArrayLike, V: ArrayLike | None, d: int | None, whole: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A and V as matrices. If both are numbers, d = 2 stands for all d >= 2, but where the `whole` is asked for."""
    A = np.asarray(as_float("A", A, (0, 2)))
    V = np.asarray(as_float("V", 1.0 if V is None else V, (0, 2)))
    if d is not None:
        d = count("d", d)
    elif A.ndim == 2:
        d = A.shape[1]
    else:
        d = V.shape[1] if V.ndim == 2 else 2
    if A.ndim == 2 and A.shape != (d, d):
        raise ValueError(f"A must have shape ({d}, {d}) for tokens in R^{d}, got {A.shape}")
    if V.ndim == 2 and V.shape[1] != d:
        raise ValueError(f"V must have shape (dv, {d}) for tokens in R^{d}, got {V.shape}")
    size = d if A.ndim == 2 or V.ndim == 2 or whole else min(d, 2)
    return (A if A.ndim == 2 else A * np.eye(size)), (V if V.ndim == 2 else V * np.eye(size))
