"""The merge time of two clusters, exactly and for large beta."""

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad

from .._check import flag, items, number, positive
from .._shown import shown
from .names import kernel_name

_LARGEST, _SMALLEST = math.log(np.finfo(float).max), math.log(np.finfo(float).tiny)


def pair_merge_time(
    rho0: float,
    rho1: float,
    beta: float,
    masses: tuple[float, float] = (0.5, 0.5),
    attention: str = "softmax",
    log: bool = False,
) -> float:
    """Return the time in which two clusters of masses m_i, m_j go from cosine rho0 to rho1, under Post-LN (FORMULAS §9).

    `T = ∫ d rho / ((1-rho^2) F(rho))`, to a relative accuracy of 1e-10. With `E = e^{beta(1-rho)}`,

    softmax `F = m_j/(m_i E + m_j) + m_i/(m_j E + m_i)`; unnormalized `F = (m_i + m_j) e^{beta rho}`.

    Under softmax attention only the ratio of the masses matters; under unnormalized attention they are fractions of the total.

    Args:
        rho0, rho1: cosines, -1 < rho0 <= rho1 < 1 (antipodal clusters are stationary; reaching cosine 1 takes infinite time).
        beta: inverse temperature, >= 0.
        masses: the two masses, > 0.
        attention: "softmax" or "unnormalized".
        log: return log T, which is finite even if T overflows.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.pair_merge_time(0.3, 0.99, beta=20.0)
        34449.023495958056
        >>> tkf.theory.pair_merge_time(0.3, 0.99, beta=1e4, log=True)
        6990.190889089508
    """
    rho0, rho1, beta, (m_i, m_j) = _cosine("rho0", rho0), _cosine("rho1", rho1), _beta(beta), _masses(masses)
    if rho0 > rho1:
        raise ValueError(f"rho1 must be at least rho0 = {rho0:g} (clusters attract), got {rho1:g}")
    if rho0 == rho1:
        return -math.inf if log else 0.0

    if kernel_name(attention) == "softmax":
        m_i, m_j = m_i / (m_i + m_j), m_j / (m_i + m_j)

        def log_slowness(u: float) -> float:
            """Return `-log F` at rho = tanh u, without overflow."""
            exponent = 2 * beta / (1 + math.exp(2 * u))  # beta (1 - rho) without cancellation
            e = math.exp(-exponent)
            return exponent + math.log((m_i + m_j * e) * (m_j + m_i * e) / (m_i**2 + m_j**2 + 2 * m_i * m_j * e))
    else:

        def log_slowness(u: float) -> float:
            return -beta * math.tanh(u) - math.log(m_i + m_j)

    start, length = math.atanh(rho0), _rapidity(rho0, rho1)
    return _range("the merge time", *_integral(lambda v: log_slowness(start + v), length, beta), log)


def pair_merge_time_asymptotic(
    rho0: float, beta: float, masses: tuple[float, float] = (0.5, 0.5), log: bool = False
) -> float:
    """Return the asymptotic merge time of two clusters from cosine rho0 for large beta, softmax, Post-LN (FORMULAS §9).

    `T ≈ e^{beta(1-rho0)} / (2 beta (1-rho0^2))` for equal masses; in general the 2 is `m_j/m_i + m_i/m_j`.
    The relative error is of order 1/beta.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.pair_merge_time_asymptotic(0.3, beta=20.0)
        33038.57923529605
    """
    rho0, beta, (m_i, m_j) = _cosine("rho0", rho0), positive("beta", beta), _masses(masses)
    logarithm = beta * (1 - rho0) - math.log((m_j / m_i + m_i / m_j) * beta * (1 - rho0**2))
    return _range("the merge time", logarithm, 1.0, log)


def _rapidity(rho0: float, rho1: float) -> float:
    """Return `artanh rho1 - artanh rho0`, without cancellation if the two are close."""
    if rho1 - rho0 > 0.1 * (1 - rho0):
        return math.atanh(rho1) - math.atanh(rho0)
    return math.atanh(2 * (rho1 - rho0) / ((1 - rho0) * (1 + rho1) + (1 + rho0) * (1 - rho1)))


def _integral(log_f: Callable[[float], float], length: float, beta: float) -> tuple[float, float]:
    """Return `∫_0^length f` for a decreasing f, as `(log f(0), ∫ f/f(0))`.

    With rho = tanh u the end points are regular, and f decreases at most like `e^{-beta u}`. Panels that double in length,
    starting at 1/(1+beta), make sure that adaptive quadrature resolves it.
    """
    top = log_f(0.0)
    breaks = (2.0 ** np.arange(1, 64) - 1) / (1 + beta)
    value, error, *_ = quad(
        lambda v: math.exp(log_f(v) - top),
        0.0,
        length,
        points=breaks[breaks < length].tolist() or None,
        epsabs=0,
        epsrel=1e-12,
        limit=1000,
        full_output=1,
    )
    if not error <= 1e-10 * value:
        raise ValueError(f"the quadrature of the merge time reached only a relative accuracy of {error / value:.1e}")
    return top, value


def _range(what: str, logarithm: float, factor: float, log: bool) -> float:
    """Return `e^logarithm factor`, or its logarithm; raise ValueError if the number overflows or underflows."""
    if flag("log", log):
        return logarithm + math.log(factor)
    if not _SMALLEST < logarithm + math.log(factor) < _LARGEST:
        raise ValueError(f"{what} is e^{logarithm + math.log(factor):.6g}, out of range: use log=True")
    return math.exp(logarithm) * factor if abs(logarithm) < 700 else math.exp(logarithm + math.log(factor))


def _cosine(name: str, value: float) -> float:
    if not -1 < number(name, value) < 1:
        raise ValueError(f"{name} must lie strictly between -1 and 1, got {shown(value)}")
    return float(value)


def _beta(value: float) -> float:
    return positive("beta", value, or_zero=True)


def _masses(values: tuple[float, float]) -> tuple[float, float]:
    both = items("masses", values, "two numbers > 0")
    if len(both) != 2:
        raise ValueError(f"masses must be two numbers > 0, got {shown(values)}")
    return positive("masses", both[0]), positive("masses", both[1])
