"""Long context: how one attention layer changes the angle between n tokens, and the scale `beta_n = gamma log n`.

Equiangular tokens, `<x_i, x_j> = rho`, stay equiangular: with weight a on the token itself and c on each other token, the
output of a layer is `y_i = (a - c) x_i + c sum_k x_k`. All results here follow from this, `|sum_k x_k|^2 = n S` and
`<x_i, sum_k x_k> = S = 1 + (n-1) rho`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from .._check import positive, reals

MOST_LAYERS = 10**6  # of a stack that is computed layer by layer


def layer_contraction(rho: ArrayLike, n: ArrayLike, beta: ArrayLike) -> Any:
    """Return the cosine of two tokens after one softmax layer on n equiangular tokens with cosine rho (FORMULAS §7).

    With weights `a = e^b/Z` on the token itself and `c = e^{b rho}/Z` on each other token, and `S = 1 + (n-1) rho`,

    `cos = (X + (a-c)^2 rho) / (X + (a-c)^2)`,  `X = c^2 n S + 2 c (a-c) S`,

    exactly, for every n. Exponentials do not overflow: n = 1e12 and beta = 1e6 are fine.

    Args:
        rho: cosines in [-1/(n-1), 1].
        n: numbers of tokens, at least 2.
        beta: inverse temperatures, any real numbers. The three arguments are broadcast against each other.

    Example:
        >>> from tokenfield.theory.long_context import layer_contraction
        >>> layer_contraction(0.5, n=[1e2, 1e4], beta=[9.21034, 18.42068])
        array([0.80279681, 0.80002806])
    """
    rho, n, beta = checked(rho, n, beta)
    weights = softmax_weights(rho, n, beta)
    return mixed_cosine(weights.excess, weights.other, rho, n)


def residual_layer_contraction(rho: ArrayLike, n: ArrayLike, beta: ArrayLike, step: ArrayLike = 1.0) -> Any:
    """Return the cosine of two tokens after `x + step Att(x)` on n equiangular tokens with cosine rho.

    The formula is that of `layer_contraction` with `1 + step (a-c)` in place of a - c and `step c` in place of c (FORMULAS §7).

    Example:
        >>> from tokenfield.theory.long_context import residual_layer_contraction
        >>> residual_layer_contraction(0.5, n=1e4, beta=0.0)
        0.8000119992800433
    """
    rho, n, beta = checked(rho, n, beta)
    step = np.asarray(step, float)
    if not ((step >= 0) & np.isfinite(step)).all():
        raise ValueError(f"step must be finite and >= 0, got {first(step, (step >= 0) & np.isfinite(step))}")
    rho, n, beta, step = np.broadcast_arrays(rho, n, beta, step)
    weights = softmax_weights(rho, n, beta)
    return mixed_cosine(1 + step * weights.excess, step * weights.other, rho, n)


def critical_gamma(rho: ArrayLike) -> Any:
    """Return `1/(1-rho)`, the critical gamma of the scale `beta_n = gamma log n` (FORMULAS §7).

    As n grows, a token's weight on itself tends to 0 below it and to 1 above it. So for 0 < rho < 1 one layer merges all tokens
    below it and preserves their cosine above it. It is infinite at rho = 1. At rho = 0 the threshold for merging is 1/2: see
    `layer_contraction_limit`.

    Example:
        >>> from tokenfield.theory.long_context import critical_gamma
        >>> critical_gamma(0.5)
        2.0
    """
    (rho,) = reals(rho=rho)
    if not (np.abs(rho) <= 1).all():
        raise ValueError(f"rho must lie in [-1, 1], got {first(rho, np.abs(rho) <= 1)}")
    with np.errstate(divide="ignore"):
        return plain(1 / (1 - rho))


def layer_contraction_limit(rho: ArrayLike, gamma: ArrayLike, residual: float | None = None) -> Any:
    """Return the limit of `layer_contraction(rho, n, gamma log n)` as n grows (FORMULAS §7).

    Let w be the limit of a token's weight on itself: 0, 1/2 or 1 for gamma below, at or above `1/(1-rho)`. The output of the
    layer is `w x_i + (1-w) m`, m the mean token, `|m|^2 = <m, x_i> = rho`. With `k = 1/w`, cosines become

    `k^2 rho / (1 + (k^2 - 1) rho)`:  1,  `4 rho/(1 + 3 rho)`,  rho.

    With a residual of step h the factor is `k = (1+h)/(1 + h w)`. At rho = 0 the mean has length `n^{-1/2}`, so
    the limit is 1 for gamma < 1/2, 1/2 at 1/2 and 0 above it (always 0 with a residual).

    Args:
        rho: cosines in [0, 1].
        gamma: factors of log n, at least 0.
        residual: the step h of a residual layer `x + h Att(x)`; None for attention alone.

    Example:
        >>> from tokenfield.theory.long_context import layer_contraction_limit
        >>> layer_contraction_limit(0.5, [1.9, 2.0, 2.1])
        array([1. , 0.8, 0.5])
    """
    rho, gamma = reals(rho=rho, gamma=gamma)
    residual = None if residual is None else positive("residual", residual, or_zero=True)
    if not ((rho >= 0) & (rho <= 1)).all():
        raise ValueError(f"rho must lie in [0, 1], got {first(rho, (rho >= 0) & (rho <= 1))}")
    if not ((gamma >= 0) & np.isfinite(gamma)).all():
        raise ValueError(f"gamma must be finite and >= 0, got {first(gamma, (gamma >= 0) & np.isfinite(gamma))}")
    own = phase(gamma * (1 - rho), 1.0)
    if residual is None:
        odds = np.where(own > 0, 1 / np.where(own > 0, own, 1) ** 2, np.inf)
    else:
        odds = ((1 + residual) / (1 + residual * own)) ** 2
    with np.errstate(invalid="ignore"):
        value = np.where(np.isinf(odds), 1.0, odds * rho / (1 + (odds - 1) * rho))
    if residual is None:
        value = np.where(rho == 0, 1 - phase(gamma, 0.5), value)
    return plain(np.where(rho == 1, 1.0, value))


def causal_contraction(rho: ArrayLike, i: ArrayLike, j: ArrayLike, beta_i: ArrayLike, beta_j: ArrayLike) -> Any:
    """Return the cosine between the outputs of tokens i <= j of one causal layer on equiangular tokens.

    Token i attends to the first i tokens (counted from 1) with its own inverse temperature beta_i. All of them are at the same
    angle to the output of j > i, and the weights of i sum to 1. So with weights as in `layer_contraction` for n = j

    `<y_i, y_j> = (a_j - c_j) rho + c_j S_j = rho + (1-rho) c_j`,  `|y_i|^2 = rho + (1-rho) (a_i^2 + (i-1) c_i^2)`.

    If `beta = gamma log n` for all positions, position i has an effective gamma of `gamma log n / log i`: early tokens
    may be above the threshold while late ones are below it. With `gamma log i` all positions have the same gamma.

    Args:
        rho: cosines in [-1/(j-1), 1].
        i, j: positions, 1 <= i <= j.
        beta_i, beta_j: their inverse temperatures, e.g. `gamma log i` and `gamma log j`.

    Example:
        >>> from tokenfield.theory.long_context import causal_contraction
        >>> causal_contraction(0.5, i=1000, j=4000, beta_i=13.8, beta_j=16.6)
        0.8000424726483211
    """
    rho, i, j, beta_i, beta_j = reals(rho=rho, i=i, j=j, beta_i=beta_i, beta_j=beta_j)
    if not (i >= 1).all():
        raise ValueError(f"i must be at least 1, got {first(i, i >= 1)}")
    if not (i <= j).all():
        raise ValueError(f"i must be at most j, got i = {first(i, i <= j):g} and j = {first(j, i <= j):g}")
    for name, beta in (("beta_i", beta_i), ("beta_j", beta_j)):
        if not np.isfinite(beta).all():
            raise ValueError(f"{name} must be finite, got {first(beta, np.isfinite(beta))}")
    checked(rho, np.maximum(j, 2), beta_j)
    early, late = softmax_weights(rho, i, beta_i), softmax_weights(rho, j, beta_j)
    square = mixed_length(early.excess, early.other, rho, i) * mixed_length(late.excess, late.other, rho, j)
    if not (square > 0).all():
        raise ValueError("an output of the layer is 0 (rho = -1/(n-1) and equal weights): it has no direction")
    inner = late.excess * rho + late.other * sum_cosine(rho, j)
    return plain(np.where(i == j, 1.0, inner / np.sqrt(square)))


class Weights(NamedTuple):
    """The softmax weights of one of n equiangular tokens.

    Attributes:
        own: the weight on the token itself, `a = e^b / Z`.
        other: the weight on each other token, `c = e^{b rho} / Z`.
        excess: `a - c`, without cancellation.
    """

    own: np.ndarray
    other: np.ndarray
    excess: np.ndarray


def softmax_weights(rho: np.ndarray, n: np.ndarray, beta: np.ndarray) -> Weights:
    """Return `a = 1/(1 + (n-1) e^{-b(1-rho)})` and `c = (1-a)/(n-1)`; for a single token a = 1 and c = 0."""
    others = np.maximum(n - 1, 1)
    gap = beta * (1 - rho)
    own = expit(gap - np.log(others))
    other = expit(np.log(others) - gap) / others
    less = np.expm1(-np.abs(gap))
    excess = np.where(gap >= 0, -own * less, other * less)
    alone = n < 2
    return Weights(np.where(alone, 1.0, own), np.where(alone, 0.0, other), np.where(alone, 1.0, excess))


def mixed_length(own: Any, mean: Any, rho: Any, n: Any) -> np.ndarray:
    """Return the squared length of `own x_i + mean sum_k x_k`."""
    return own**2 + mean * sum_cosine(rho, n) * (n * mean + 2 * own)


def mixed_cosine(own: Any, mean: Any, rho: Any, n: Any) -> Any:
    """Return the cosine between `own x_i + mean sum_k x_k` and the same of another token."""
    shared = mean * sum_cosine(rho, n) * (n * mean + 2 * own)
    if not (shared + own**2 > 0).all():
        raise ValueError("the output of the layer is 0 (rho = -1/(n-1) and equal weights): it has no direction")
    return plain(np.clip((shared + own**2 * rho) / (shared + own**2), -1 / (n - 1), 1.0))


def sum_cosine(rho: Any, n: Any) -> np.ndarray:
    """Return `S = 1 + (n-1) rho = <x_i, sum_k x_k>`, exactly 0 at rho = -1/(n-1)."""
    S = 1 + (n - 1) * rho
    return np.where(np.abs(S) <= 4e-16 * np.maximum(1, (n - 1) * np.abs(rho)), 0.0, S)


def phase(value: np.ndarray, threshold: float) -> np.ndarray:
    """Return 0, 1/2 or 1 for a value below, at (to rounding) or above a threshold."""
    at = np.abs(value - threshold) <= 1e-12 * threshold
    return np.where(at, 0.5, np.where(value > threshold, 1.0, 0.0))


def checked(rho: ArrayLike, n: ArrayLike, beta: ArrayLike) -> tuple[np.ndarray, ...]:
    """Return rho, n and beta broadcast against each other; raise ValueError if one is out of range."""
    rho, n, beta = reals(rho=rho, n=n, beta=beta)
    if not ((n >= 2) & np.isfinite(n)).all():
        raise ValueError(f"n must be finite and at least 2, got {first(n, (n >= 2) & np.isfinite(n))}")
    if not np.isfinite(beta).all():
        raise ValueError(f"beta must be finite, got {first(beta, np.isfinite(beta))}")
    inside = (rho >= -1 / (n - 1)) & (rho <= 1)
    if not inside.all():
        least = -1 / (first(n, inside) - 1)
        raise ValueError(f"rho must lie in [-1/(n-1), 1] = [{least:.6g}, 1], got {first(rho, inside):.6g}")
    return rho, n, beta


def first(values: np.ndarray, good: np.ndarray) -> float:
    """Return the first value that is not good, for an error message."""
    return float(values[~np.broadcast_to(good, values.shape)].flat[0])


def plain(value: np.ndarray) -> Any:
    """Return a float for a single number, else the array."""
    return float(value) if np.ndim(value) == 0 else value
