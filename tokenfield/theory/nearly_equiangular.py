"""Long context with tokens at nearly equal angles, in a dimension of order log n.

Tokens `x_i = sqrt(rho) u + sqrt(1-rho) xi_i`, xi_i independent and uniform on the unit sphere of `D = d - 1`
dimensions: scores are `beta (rho + (1-rho) s)` with s of density `(1-s^2)^{(D-3)/2}`. With `d = c log n` and
`beta = gamma log n`, about `n^{1 + (c/2) log(1-s^2)}` tokens lie at s. So with `g = gamma (1-rho)` all other tokens have the
total weight `n^{gamma rho + f(g)}`, against `n^{gamma rho + g}` for the token itself, where

`f(g) = max_s g s + 1 + (c/2) log(1-s^2)`,  attained at  `s(g) = (sqrt(c^2 + 4 g^2) - c) / (2 g)`

as long as tokens exist there, `1 + (c/2) log(1-s^2) > 0`. Otherwise the sum is dominated by its few largest terms (the
frozen phase of a random energy model). It is at most `n^{gamma rho + g s_*}` with s_* < 1, less than the token's own
weight, so freezing does not affect the threshold. Below the threshold attention averages over tokens tilted toward xi_i,
with output `sqrt(rho) u + sqrt(1-rho) s(g) xi_i`: even there the tokens do not merge.

Derived here for n -> infinity at fixed c, rho, gamma, and compared with simulated tokens in the tests. As d -> infinity at
fixed n, tokens become equiangular.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, gammaln, hyp0f1, ive

from .._check import reals
from .long_context import checked, first, phase, plain


def nearly_equiangular_threshold(rho: ArrayLike, c: ArrayLike) -> Any:
    """Return the critical gamma of `beta = gamma log n` in dimension `d = c log n`; `1/(1-rho)` as c grows.

    It is `g/(1-rho)`, g the root of `f(g) = g`: with `1 + (c/2) log(1-s^2) = c s/(1+s)`, `g = c s/(1-s^2)`. For
    large c, `g = 1 + 1/(2c) + …`: fluctuations of the scores add `g^2/(2c)` to the exponent of the other tokens.

    Args:
        rho: cosines in [0, 1).
        c: `d / log n`, positive.

    Example:
        >>> from tokenfield.theory.nearly_equiangular import nearly_equiangular_threshold
        >>> nearly_equiangular_threshold(0.5, [1.0, 4.0, 100.0])
        array([4.91211874, 2.32496687, 2.01010075])
    """
    rho, c = _ranges(rho, c)
    return plain(np.vectorize(_critical, otypes=[float])(c) / (1 - rho))


def nearly_equiangular_limit(rho: ArrayLike, gamma: ArrayLike, c: ArrayLike) -> Any:
    """Return the mean cosine after one layer as n grows, with `beta = gamma log n` and `d = c log n`.

    `rho / (rho + (1-rho) p^2)` with `p = s(g)`, `(1 + s(g))/2` or 1 for gamma below, at or above the threshold. As c
    grows s(g) tends to 0, and the limits are those of `layer_contraction_limit`.

    Example:
        >>> from tokenfield.theory.nearly_equiangular import nearly_equiangular_limit
        >>> nearly_equiangular_limit(0.5, gamma=[1.0, 4.0], c=4.0)
        array([0.98507125, 0.5       ])
    """
    rho, c = _ranges(rho, c)
    (gamma,) = reals(gamma=gamma)
    if not ((gamma >= 0) & np.isfinite(gamma)).all():
        raise ValueError(f"gamma must be finite and >= 0, got {first(gamma, (gamma >= 0) & np.isfinite(gamma))}")
    g = gamma * (1 - rho)
    own = phase(g / np.vectorize(_critical, otypes=[float])(c), 1.0)
    private = own + (1 - own) * 2 * g / (c + np.sqrt(c**2 + 4 * g**2))
    with np.errstate(invalid="ignore"):
        return plain(np.where(rho == 0, 0.0, rho / (rho + (1 - rho) * private**2)))


def nearly_equiangular_contraction(rho: ArrayLike, n: ArrayLike, d: ArrayLike, beta: ArrayLike) -> Any:
    """Return the mean cosine after one layer of `nearly_equiangular(rho, n, d)` tokens, at finite n and d.

    With `k = beta (1-rho)`, `D = d - 1`, `M(k) = E e^{k s}` and `A(k) = M'/M = I_{D/2}(k)/I_{D/2-1}(k)`, a token's weight on
    itself is `p = 1/(1 + (n-1) M(k) e^{-k})`. The squared length of the part of an output that is not shared is `(1-rho) T`,

    `T = t^2 + q (1 - A^2)`,  `t = p + (1-p) A`,  `q = (1-p)^2 M(2k)/((n-1) M(k)^2)`,

    and the cosine is `(rho + (1-rho)(1-T)/(n-1)) / (rho + (1-rho) T)`. Sums over tokens are replaced by their means, so this is
    accurate if many tokens share the weight (q << 1) or one has nearly all of it (p near 1). As d grows it tends to
    `layer_contraction`.

    Example:
        >>> from tokenfield.theory.nearly_equiangular import nearly_equiangular_contraction
        >>> nearly_equiangular_contraction(0.5, n=1000, d=100, beta=10.0)
        0.9749318330840132
    """
    rho, n, beta = checked(rho, n, beta)
    d = np.asarray(d, float)
    if not ((d >= 3) & np.isfinite(d)).all():
        raise ValueError(f"d must be finite and at least 3, got {first(d, (d >= 3) & np.isfinite(d))}")
    if not (rho >= 0).all():
        raise ValueError(f"rho must lie in [0, 1], got {first(rho, rho >= 0)}")
    D, k = d - 1, np.abs(beta) * (1 - rho)
    sign = np.sign(beta)
    log_moment, tilt = _log_moment(k, D), sign * _tilt(k, D)
    own = expit(sign * k - np.log(n - 1) - log_moment)
    several = np.minimum(1.0, np.exp(_log_moment(2 * k, D) - 2 * log_moment - np.log(n - 1)))
    T = (own + (1 - own) * tilt) ** 2 + (1 - own) ** 2 * several * (1 - tilt**2)
    return plain((rho + (1 - rho) * (1 - T) / (n - 1)) / (rho + (1 - rho) * T))


def _critical(c: float) -> float:
    """Return g with f(g) = g, from the root `L = -log(1-s^2)` in (0, 2/c)."""
    if c < 1e-300:  # g, about c e^(2/c), overflows, and 2/c may overflow too
        return np.inf
    s = lambda L: np.sqrt(-np.expm1(-L))  # noqa: E731
    L = brentq(lambda L: 1 - c * L / 2 - c * s(L) / (1 + s(L)), 0.0, 2 / c, xtol=1e-300, rtol=1e-14)
    with np.errstate(over="ignore"):
        return float(c * s(L) * np.exp(L))


def _log_moment(k: np.ndarray, D: np.ndarray) -> np.ndarray:
    """Return `log E e^{k s}` for s a coordinate of a uniform point on the unit sphere of R^D: `0F1(D/2; k^2/4)`."""
    small = k**2 / (2 * D) < 300
    near = np.log(hyp0f1(D / 2, np.where(small, k, 0) ** 2 / 4))
    far = np.where(small, 1.0, k)
    with np.errstate(divide="ignore"):
        beyond = gammaln(D / 2) + (D / 2 - 1) * np.log(2 / far) + np.log(ive(D / 2 - 1, far)) + far
    return np.where(small, near, beyond)


def _tilt(k: np.ndarray, D: np.ndarray) -> np.ndarray:
    """Return `I_{D/2}(k) / I_{D/2-1}(k)`, the mean of s under the weight `e^{k s}`."""
    small = k**2 / (2 * D) < 300
    near = k / D * hyp0f1(D / 2 + 1, np.where(small, k, 0) ** 2 / 4) / hyp0f1(D / 2, np.where(small, k, 0) ** 2 / 4)
    far = np.where(small, 1.0, k)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(small, near, ive(D / 2, far) / ive(D / 2 - 1, far))


def _ranges(rho: ArrayLike, c: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    rho, c = reals(rho=rho, c=c)
    if not ((rho >= 0) & (rho < 1)).all():
        raise ValueError(f"rho must lie in [0, 1), got {first(rho, (rho >= 0) & (rho < 1))}")
    if not ((c > 0) & np.isfinite(c)).all():
        raise ValueError(f"c must be finite and > 0, got {first(c, (c > 0) & np.isfinite(c))}")
    return rho, c
