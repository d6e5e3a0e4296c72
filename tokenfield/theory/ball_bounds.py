"""Bounds on the Lipschitz constant of softmax attention for tokens in a ball, from A, V, R and n alone."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, count, positive
from .gap import score_gap


class Bounds(NamedTuple):
    """Bounds on the Lipschitz constant of one softmax layer.

    Attributes:
        upper: upper bound on the local constant of any n tokens in the ball of radius R; masked attention included.
        lower: some n tokens in that ball have at least this local constant; masked attention included.
        mean_field: bound for measures in the ball, in every Wasserstein distance W_p; independent of n. Infinite on
            overflow.
        gap: `g = max_{|u|<=1} (|Au| - <u,Au>)`, which determines the lower bound if this is above |V|.
        notes: remarks on these numbers.
        log_mean_field: the logarithm of mean_field, finite unless V = 0.
        sharp_upper: a sharper upper bound, never above `upper`: `|V| ( sqrt(n) (1 + |A|R^2) + |A|R^2 )`.
        data: bound at the given tokens x only, masked or not (None without x): see `data_bounds`.
        sharp_data: a sharper bound at x, never above `data`; without a mask.
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


def ball_bounds(A: ArrayLike, V: ArrayLike | None, R: float, n: int, d: int | None = None) -> Bounds:
    """Return bounds on the local constants of n tokens in the ball of radius R; see `tokenfield.lipschitz.bounds`.

    Args:
        A: (d, d) score matrix, or a number a for a I.
        V: (dv, d) value matrix, a number, or None for the identity.
        R: radius of the ball that contains the tokens.
        n: number of tokens.
        d: dimension of the tokens if neither A nor V is a matrix; None covers every d >= 2.

    Example:
        >>> from tokenfield.theory.ball_bounds import ball_bounds
        >>> ball_bounds([[-1.0, 0.0], [0.0, 0.5]], None, R=1.5, n=5).gap
        2.0
    """
    R, n = positive("R", R, or_zero=True), count("n", n)
    A, V = matrices(A, V, d)
    a, v = (float(np.linalg.norm(matrix, 2)) for matrix in (A, V))
    notes = []

    upper = math.sqrt(3) * v * math.hypot(a * R**2 * math.sqrt(4 * n + 1), math.sqrt(n))
    g, u = score_gap(A, across=np.linalg.svd(V)[2][0])
    factor = _across(V, A @ u)
    lower = factor * math.sqrt(n - 1) / (1 + (n - 1) * math.exp(-(R**2) * g))
    if lower <= v:
        lower = v
        notes.append(f"lower is |V| = {v:.6g}, the constant of n equal tokens")
    elif factor < v * (1 - 1e-12):
        notes.append(f"lower has the factor {factor:.6g} = max |Ve| over unit e ⊥ Au, less than |V| = {v:.6g}")

    logarithm = (math.log(v) if v > 0 else -math.inf) + math.log1p(3 * a * R**2) + 2 * a * R**2
    mean_field = math.exp(logarithm) if logarithm < math.log(np.finfo(float).max) else math.inf
    if math.isinf(mean_field):
        notes.append(f"mean_field = e^{logarithm:.6g} overflows: see log_mean_field")
    sharp = v * (math.sqrt(n) * (1 + a * R**2) + a * R**2)
    return Bounds(upper, lower, mean_field, g, tuple(notes), logarithm, sharp)


def _across(V: np.ndarray, direction: np.ndarray) -> float:
    """Return `max |Ve|` over unit vectors e orthogonal to a direction (over all unit vectors if it is 0 or d = 1).

    On the line no e is orthogonal, but moving token 1 along Au itself moves each other output by
    `p (1 + (1-p) R^2 g) |V|`, so |V| is a valid factor there.
    """
    length = np.linalg.norm(direction)
    if length > 0 and len(direction) > 1:
        w = direction / length
        V = V - np.outer(V @ w, w)
    return float(np.linalg.norm(V, 2))


def matrices(A: ArrayLike, V: ArrayLike | None, d: int | None, whole: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return A and V as matrices. If both are numbers, 2 x 2 matrices represent every d >= 2, unless `whole` is True."""
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
