"""Noisy tokens on the sphere: the critical inverse noise above which they become ordered, and the kind of transition."""

import math
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from .._check import count, number, positive
from .modes import log_multiplier
from .names import MOST_DIMENSION, kernel_name

_LARGEST, _SMALLEST = math.log(np.finfo(float).max), math.log(np.finfo(float).tiny)


def critical_kappa(beta: float, d: int, attention: str = "unnormalized", log_unit: float = 0.0) -> float:
    """Return the kappa above which the uniform measure is unstable, for `dX = P(drift) dt + sqrt(2/kappa) dW` (FORMULAS §10).

    Mode 1 becomes unstable first: `kappa_c = beta/w_1` for unnormalized attention, `beta w_0/w_1` for softmax; d as beta → 0.

    Args:
        beta: inverse temperature, >= 0.
        d: dimension of the tokens.
        attention: "unnormalized" or "softmax".
        log_unit: the drift is divided by `e^{log_unit}` (as `Unnormalized` does for large beta), which multiplies
            kappa_c by the same factor.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.critical_kappa(beta=1.0, d=2)
        1.7694132376805825
    """
    beta, d, attention = positive("beta", beta, or_zero=True), count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    log_unit = number("log_unit", log_unit)
    logarithm = math.log(d)
    if beta > 0:
        logarithm = math.log(beta) - log_multiplier(1, beta, d)
        logarithm += log_multiplier(0, beta, d) if attention == "softmax" else 0.0
    if not _SMALLEST < logarithm + log_unit < _LARGEST:
        raise ValueError(
            f"critical kappa of {attention} attention is e^{logarithm + log_unit:.6g} at beta = {beta:g}, out of range: "
            f"pass log_unit={beta:g} for time in units of e^-log_unit, got log_unit = {log_unit:g}"
        )
    return math.exp(logarithm + log_unit)


def beta_star(d: int, attention: str = "unnormalized") -> float:
    """Return the largest beta for which the transition to order is continuous: `w_2/w_1 = 1/d` (FORMULAS §10).

    `I_{d/2+1}(beta_*)/I_{d/2}(beta_*) = 1/d`. Infinite for softmax attention: see `transition`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.beta_star(d=2)
        2.446918311289046
    """
    d = count("d", d, 2, MOST_DIMENSION)
    if kernel_name(attention) == "softmax":
        return math.inf
    # With v = d/2, b/(v+1 + sqrt(b^2 + (v+1)^2)) < I_{v+1}(b)/I_v(b) < b/(2v+2): the root lies between 1 and 3.
    return float(brentq(lambda beta: _landau(beta, d, "unnormalized"), 1.0, 3.0, xtol=1e-14, rtol=1e-15))


def transition(beta: float, d: int, attention: str = "unnormalized") -> Literal["continuous", "first order"]:
    """Return whether the transition to order at `critical_kappa` is "continuous" or "first order" (FORMULAS §10).

    Stationary measures are `mu ∝ exp(kappa W*mu)` (unnormalized) or `mu ∝ Z^{kappa/beta}` (softmax). Near the
    uniform measure, `mu = 1 + a P_1 + b P_2` in zonal harmonics, with b of order a^2; to third order in a,
    `kappa/kappa_c - 1 = c a^2`. With `q = w_0/w_1` and `R = w_2/w_1`, c has the sign of

    - unnormalized: `1 - R d`, so the transition is continuous for beta <= beta_star(d);
    - softmax: `d + q - (q-1)(d-1) R/(1-R)`. It is positive for every beta and d, because `R q < 1` (Turán's
      inequality `I_{v-1} I_{v+1} < I_v^2`) makes the last term less than d - 1. So the transition is always continuous.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.transition(4.0, d=2), tkf.theory.transition(4.0, d=2, attention="softmax")
        ('first order', 'continuous')
    """
    beta, d, attention = positive("beta", beta, or_zero=True), count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    return "continuous" if beta == 0 or _landau(beta, d, attention) >= 0 else "first order"


def _landau(beta: float, d: int, attention: str) -> float:
    """Return c in `kappa/kappa_c - 1 = c a^2 + O(a^4)`, a the coefficient of P_1 = <x, e> in the stationary density.

    Derived by projecting the stationary equation on P_1 and P_2, with `t P_2 → 2/(d+2) t`, `t^3 → 3/(d+2) t` and
    `t^2 = 1/d + (d-1)/d P_2`.
    """
    first, second = log_multiplier(1, beta, d), log_multiplier(2, beta, d)
    R, rest = math.exp(second - first), -math.expm1(second - first)
    if attention == "unnormalized":
        return (1 - R * d) / (rest * d * (d + 2))
    excess = math.expm1(log_multiplier(0, beta, d) - first)  # q - 1
    q = 1 + excess
    return excess * (d + q - excess * (d - 1) * R / rest) / (d * (d + 2) * q**2)
