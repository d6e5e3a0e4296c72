"""Linear stability of the uniform measure: which mode grows fastest, and at what rate."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, ive, logsumexp

from .._check import count, items, number, positive
from .names import MOST_DIMENSION, kernel_name

LARGEST_BETA = 1e9  # SciPy's Bessel functions fail above it

_LARGEST = math.log(np.finfo(float).max)


def log_multiplier(k: int, beta: float, d: int) -> float:
    """Return `log w_k`, the Funk–Hecke multiplier of `e^{beta<x,y>}` on the sphere of R^d (FORMULAS §8).

    `w_k = Gamma(d/2) (2/beta)^{d/2-1} I_{k+d/2-1}(beta)`: integrating the kernel against a spherical harmonic of
    degree k, with respect to the uniform *probability*, multiplies it by w_k. As a series of positive terms,
    `w_k = (beta/2)^k Gamma(d/2)/Gamma(k+d/2) sum_m (beta^2/4)^m / (m! (k+d/2)_m)`.
    At beta = 0, w_0 = 1 and all others are 0 (their logarithm is -inf).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.log_multiplier(1, beta=1.0, d=3)
        -1.0
    """
    k, beta, d = count("k", k, 0), positive("beta", beta, or_zero=True), count("d", d, 2, MOST_DIMENSION)
    if beta > LARGEST_BETA:
        raise ValueError(f"beta must be at most {LARGEST_BETA:g}, got {beta:g}")
    if beta == 0:
        return 0.0 if k == 0 else -math.inf
    a, x = k + d / 2, beta * beta / 4
    if k < 10**6:  # the logarithm of (beta/2)^k Gamma(d/2)/Gamma(k+d/2)
        leading = float(np.log(beta / (d + 2 * np.arange(k))).sum())
    else:
        leading = k * math.log(beta / 2) + float(gammaln(d / 2) - gammaln(a))
    peak = (math.sqrt((a - 1) ** 2 + 4 * x) - (a - 1)) / 2  # the largest term is where m (m + a - 1) = x
    terms = int(peak + 12 * math.sqrt(peak)) + 60
    if x / a < 600:  # the sum is below e^{x/a}: it fits, and its logarithm is right even when it is nearly 1
        m = np.arange(1, terms)
        return leading + math.log1p(float(np.cumprod(x / (m * (m + a - 1))).sum()))
    scaled = float(ive(a - 1, beta))
    if scaled > 1e-280:
        return float(gammaln(d / 2)) + (d / 2 - 1) * math.log(2 / beta) + math.log(scaled) + beta
    m = np.arange(terms)
    return leading + float(logsumexp(m * math.log(x) - gammaln(m + 1) - gammaln(m + a)) + gammaln(a))


def growth_rates(
    beta: float,
    d: int,
    attention: str = "softmax",
    modes: int | Sequence[int] = 32,
    log_unit: float = 0.0,
) -> np.ndarray:
    """Return the growth rate of each mode of a small perturbation of the uniform measure, under Post-LN (FORMULAS §8).

    Softmax: `k(k+d-2) w_k / (beta w_0)`; unnormalized: `k(k+d-2) w_k / beta`. At beta = 0 only mode 1 grows, at
    rate (d-1)/d.

    Args:
        beta: inverse temperature, >= 0.
        d: dimension of the tokens.
        attention: "softmax" or "unnormalized".
        modes: the last mode (then modes 0, 1, …, modes), or a list of modes.
        log_unit: rates are divided by `e^{log_unit}`. Unnormalized rates are of order e^beta: use log_unit = beta if it is large.

    Returns:
        an array with one rate per mode.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.growth_rates(beta=7.0, d=2, modes=6)
        array([0.        , 0.13221889, 0.42032127, 0.64955692, 0.69148406,
               0.56953181, 0.38423084])
    """
    beta, d, attention = positive("beta", beta, or_zero=True), count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    ks = range(count("modes", modes, 0) + 1) if isinstance(modes, (int, np.integer)) else items("modes", modes, "modes")
    log_unit = number("log_unit", log_unit)
    logs = np.array([_log_rate(count("modes", k, 0), beta, d) for k in ks], float)
    logs -= log_unit + (log_multiplier(0, beta, d) if attention == "softmax" else 0.0)
    if logs.size and logs.max() > _LARGEST:
        raise ValueError(
            f"growth rates of {attention} attention overflow at beta = {beta:g}: pass log_unit={beta:g} to have them "
            f"divided by e^log_unit, got log_unit = {log_unit:g}"
        )
    return np.exp(logs)


def first_clusters(beta: float, d: int) -> int:
    """Return the mode that grows fastest from the uniform measure: `k_max = argmax_k k(k+d-2) w_k` (FORMULAS §8).

    On the circle it predicts the number of the first metastable clusters; for d > 2 it is the degree of the
    spherical harmonic that appears first. It is the same for softmax and unnormalized attention. For large beta
    `k(k+d-2) ≈ 2 beta`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.first_clusters(beta=7.0, d=2)
        4
    """
    beta, d = positive("beta", beta, or_zero=True), count("d", d, 2, MOST_DIMENSION)
    if beta == 0:
        return 1

    def falls(k: int) -> bool:
        return _log_rate(k + 1, beta, d) <= _log_rate(k, beta, d)

    # The rates are log-concave in k (Turán's inequality for I_nu): bisect for the first k after which they fall.
    high = 1
    while not falls(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if falls(middle) else (middle, high)
    return high


def _log_rate(k: int, beta: float, d: int) -> float:
    """Return `log(k(k+d-2) w_k / beta)`, with its limit at beta = 0."""
    if k == 0:
        return -math.inf
    if beta == 0:
        return math.log((d - 1) / d) if k == 1 else -math.inf
    return math.log(k * (k + d - 2)) + log_multiplier(k, beta, d) - math.log(beta)
