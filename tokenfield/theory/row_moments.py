"""Moments of a softmax of Gaussian scores, at finite n, by quadrature.

A row of weights is `p_j = e_j/Z` with `e_j = e^{sigma eta_j}`, `Z = sum_j e_j`, eta_j independent and standard normal;
entries `eta_j, eta'_j` of two rows have correlation rho. From `1/Z^2 = ∫ s e^{-sZ} ds` and
`1/(Z Z') = ∬ e^{-sZ - s'Z'} ds ds'`, all n entries factor:

`n E p_1^2 = n ∫ s E[e^2 e^{-se}] E[e^{-se}]^{n-1} ds`,
`n E p_1 p'_1 = n ∬ E[e e' e^{-se-s'e'}] E[e^{-se-s'e'}]^{n-1} ds ds'`.

There is no expansion in 1/n. Gaussian means are sums on a grid, which converge faster than any power of its step, and
the outer integrals are over t, `s = e^{t - e^{-t}}`. Both are accurate to about 1e-12 (tests).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._check import number

LARGEST_VARIANCE = 50.0
LARGEST_ROW = 1e100
REACH = 8.6  # beyond this many standard deviations a Gaussian is below rounding


class SoftmaxMoments(NamedTuple):
    """Moments of softmax weights of Gaussian scores.

    Attributes:
        own: `E sum_j p_j^2`, 1/n for equal weights.
        cross: `E sum_j p_j p'_j` of two rows.
        spread: `(E sum_j p_j p'_j/(|p||p'|)) / (E sum_j p_j p'_j / E|p|^2) - 1` of two independent rows: how much the
            fluctuation of |p| changes a cosine.
        pull: `E sum_{j≠k} d^2(p_j p_k)/ds_j ds_k = E [1 - 5 P_2 + 4 P_3 + 6 (P_2^2 - P_4)]`, `P_m = sum_j p_j^m`: how much
            a covariance between scores j and k raises `E p_j p_k`, summed over pairs.
    """

    own: float
    cross: float
    spread: float
    pull: float


def softmax_moments(rho: float, n: float, variance: float) -> SoftmaxMoments:
    """Return `E sum_j p_j^2`, `E sum_j p_j p'_j` and other moments of softmax weights of Gaussian scores.

    Args:
        rho: correlation of the scores of the two rows, in [-1, 1].
        n: number of weights in a row, at least 2.
        variance: variance sigma^2 of the scores, in [0, 50].

    Example:
        >>> from tokenfield.theory.row_moments import softmax_moments
        >>> softmax_moments(0.0, n=32, variance=1.0)
        SoftmaxMoments(own=0.0728143283356042, cross=0.03125, spread=0.07202212875728198, pull=0.6996960814399659)
    """
    n = number("n", n, 2, LARGEST_ROW)
    return _moments(number("rho", rho, -1, 1), n, number("variance", variance, 0, LARGEST_VARIANCE))


@lru_cache(maxsize=4096)
def _moments(rho: float, n: float, variance: float) -> SoftmaxMoments:
    sigma = float(np.sqrt(variance))
    own, pull = _one_row(n, sigma)
    return SoftmaxMoments(own, _cross(rho, n, sigma), n**2 * _direction(n, sigma) ** 2 * own - 1, pull)


def _one_row(n: float, sigma: float) -> tuple[float, float]:
    """Return `E P_2` and the pull, from `1/Z^m = ∫ s^{m-1} e^{-sZ} ds / (m-1)!`."""
    s, ds = _outer(n, sigma)
    z, w = _gauss(sigma, 3 * sigma)
    e = np.exp(sigma * z)
    product = s[:, None] * e
    missing = -np.expm1(-product) @ w
    rest = _power(missing, n)
    second, third = (np.exp(-product) @ (w * e**m) for m in (2, 3))
    P2 = float(n * np.sum(ds * s * second * rest))
    P3 = float(n / 2 * np.sum(ds * s**2 * third * rest))
    pairs = float(n * (n - 1) / 6 * np.sum(ds * s**3 * second**2 * _power(missing, n - 1)))
    return P2, 1 - 5 * P2 + 4 * P3 + 6 * pairs


def _cross(rho: float, n: float, sigma: float) -> float:
    s, ds = _outer(n, sigma)
    shared, private = sigma * np.sqrt(abs(rho)), sigma * np.sqrt(1 - abs(rho))
    z, w = _gauss(shared, 2 * shared, symmetric=True)
    zeta, v = _gauss(private, private)

    def means(sign: float) -> tuple[np.ndarray, np.ndarray]:
        """Return E[1 - e^{-se}] and E[e e^{-se}] given the shared part, (outer, shared)."""
        e = np.exp(sign * shared * z[:, None] + private * zeta)
        pairs = [(-np.expm1(-each * e) @ v, (e * np.exp(-each * e)) @ v) for each in s]
        missing, first = zip(*pairs, strict=True)
        return np.array(missing), np.array(first)

    missing, first = means(1.0)
    other, second = (missing, first) if rho >= 0 else means(-1.0)
    joint = (missing @ w)[:, None] + other @ w - (missing * w) @ other.T
    return float(n * (ds @ (((first * w) @ second.T) * _power(joint, n)) @ ds))


def _direction(n: float, sigma: float) -> float:
    """Return `E p_1/|p| = E e_1/sqrt(sum_j e_j^2)`, from `1/sqrt(W) = ∫ e^{-sW} ds/sqrt(pi s)`."""
    s, ds = _outer(n, 2 * sigma)
    z, w = _gauss(2 * sigma, sigma)
    e = np.exp(sigma * z)
    product = s[:, None] * e**2
    missing = -np.expm1(-product) @ w
    return float(np.sum(ds / np.sqrt(np.pi * s) * (np.exp(-product) @ (w * e)) * _power(missing, n)))


def _power(missing: np.ndarray, n: float) -> np.ndarray:
    """Return `(1 - missing)^{n-1}`."""
    return np.exp((n - 1) * np.log1p(-np.minimum(missing, 1 - 1e-16)))


def _gauss(scale: float, shift: float, symmetric: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for means over a standard normal z of functions of `e^{scale z}` times at most `e^{shift z}`."""
    step, top = 0.25 / max(0.5, scale), REACH + shift
    z = np.arange(-top if symmetric else -REACH, top, step)
    w = np.exp(-z * z / 2)
    return z, w * step / np.sqrt(2 * np.pi)


def _outer(n: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes s and weights ds for `∫ f(s) E[e^{-se}]^{n-1} ds`, where the integrand is not negligible."""
    step = 0.2
    t = np.arange(-4.5, 8 + 10 * sigma + sigma**2 / 2 + np.log(n), step)
    s = np.exp(t - np.exp(-t) - sigma**2 / 2) / n
    z, w = _gauss(sigma, 0.0)
    missing = np.array([-np.expm1(-each * np.exp(sigma * z)) @ w for each in s])
    needed = _power(missing, n) > 1e-18
    needed[: np.argmin(needed) if not needed.all() else None] = True
    return s[needed], (s * (1 + np.exp(-t)) * step)[needed]
