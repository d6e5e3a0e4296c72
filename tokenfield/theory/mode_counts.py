"""Expected number of modes of a kernel density of random points, by the Kac–Rice formula."""

import math

import numpy as np
from scipy.special import ive, log_ndtr

from .._check import flag, positive
from .._shown import shown


def kde_modes_circle(beta: float, limit: bool = False) -> float:
    """Return the expected number of maxima of `sum_j e^{beta cos(theta-theta_j)}` on the circle (FORMULAS §8).

    For n → ∞ uniform points, the fluctuations of the sum are a stationary Gaussian field with covariance
    `sum_k I_k(beta)^2 cos(k tau) = I_0(2 beta cos(tau/2))`, up to the constant term. By the Kac–Rice formula it has
    `sqrt(l_4/l_2)` maxima on average, l_m the spectral moments, which are derivatives of the covariance at 0:
    `sqrt((3 beta/2) I_0(2 beta)/I_1(2 beta) - 1/2)`. This is 1 at beta = 0 and about `sqrt(3 beta/2)` for large beta.

    Args:
        beta: precision of the kernel.
        limit: return the large-beta limit `sqrt(3 beta/2)` instead.

    Example:
        >>> from tokenfield.theory.mode_counts import kde_modes_circle
        >>> kde_modes_circle(beta=100.0)
        12.242402269480957
    """
    beta = positive("beta", beta, or_zero=True)
    if flag("limit", limit):
        return math.sqrt(1.5 * beta)
    if beta < 1e-8:
        return 1.0
    return math.sqrt(1.5 * beta * float(ive(0, 2 * beta) / ive(1, 2 * beta)) - 0.5)


def kde_modes_line(n: float, beta: float) -> float:
    """Return the expected number of maxima of the Gaussian KDE of n standard Gaussian points on the line (FORMULAS §8).

    This is the Kac–Rice formula `∫ p_{f'(x)}(0) E[(f''(x))^- | f'(x) = 0] dx`, with the derivatives f', f'' of the density
    taken as jointly Gaussian. Their means are those of the normal density of variance 1 + 1/beta. Their covariances, of size
    1/n, are Gaussian moments in closed form. Modes occur where the noise exceeds the slope, from `n phi(x) x^2 ≈ beta^{3/2}`
    outward. Where points are too sparse for a Gaussian field, each point is a mode: the density of modes is bounded by that of
    the points, `n phi(x)`. The result is 1 to 8 % above simulations for `n^{1/2} <= beta <= n^{3/2}`, and of order
    `sqrt(beta log beta)` if beta is a power of n.

    Args:
        n: number of points (it may be very large, and need not be an integer).
        beta: precision of the kernel.

    Example:
        >>> from tokenfield.theory.mode_counts import kde_modes_line
        >>> kde_modes_line(n=1e5, beta=1e4)
        155.01979147060135
    """
    n, beta = positive("n", n), positive("beta", beta)
    reach = math.sqrt(2 * math.log(max(n, 2.0))) + 8
    # the central mode lies within about n^{-1/2} of 0
    x = np.append(0.0, np.geomspace(1e-4 / math.sqrt(n), reach, 40_000))
    return float(2 * np.trapezoid(np.minimum(_kac_rice(x, n, beta), n * _normal(x, 1.0)), x))


def _normal(x: np.ndarray, variance: float) -> np.ndarray:
    return np.exp(-x * x / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def _kac_rice(x: np.ndarray, n: float, beta: float) -> np.ndarray:
    """Return the density of modes at x. All moments are taken relative to `N(x; 0, 1 + 1/(2 beta))`, which underflows last."""
    # K(u)^2 = sqrt(beta/4pi) N(u; 0, 1/(2 beta)), and N(u; 0, 1/(2 beta)) phi(x-u) = N(x; 0, v) N(u; c, s^2).
    v = 1 + 1 / (2 * beta)
    log_base = -x * x / (2 * v) - 0.5 * math.log(2 * math.pi * v)
    c, s2 = x / (1 + 2 * beta), 1 / (1 + 2 * beta)
    u2, u3, u4 = c * c + s2, c**3 + 3 * c * s2, c**4 + 6 * c * c * s2 + 3 * s2 * s2
    scale = math.sqrt(beta / (4 * math.pi))
    v11 = scale * beta**2 * u2
    v12 = scale * -(beta**2) * (beta * u3 - c)
    v22 = scale * beta**2 * (beta**2 * u4 - 2 * beta * u2 + 1)
    total = 1 + 1 / beta
    log_mean = -x * x / (2 * total) - 0.5 * math.log(2 * math.pi * total)
    g1, g2 = -x / total, (x * x / total - 1) / total  # the means are these times e^{log_mean}
    square = np.exp(2 * log_mean - log_base)
    v11, v12, v22 = v11 - square * g1 * g1, v12 - square * g1 * g2, v22 - square * g2 * g2
    root = math.sqrt(n) * np.exp(log_mean - log_base / 2)  # means in units of the noise
    m1, m2 = root * g1, root * g2
    mean, sd = m2 - v12 / v11 * m1, np.sqrt(v22 - v12**2 / v11)
    z = mean / sd
    below = sd * (np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * np.exp(log_ndtr(-z)))
    return np.exp(-m1 * m1 / (2 * v11)) / np.sqrt(2 * math.pi * v11) * below


def kde_modes_line_limit(exponent: float) -> float:
    """Return the constant C of `C sqrt(beta log beta)`, the number of modes as n → ∞ with `beta = n^exponent` (FORMULAS §8).

    Modes have the density `sqrt(3 beta/2)/(2 pi)` where `beta^{1/2} < n phi(x) < beta^{3/2}`, so
    `C = (sqrt(3)/pi) (sqrt(1/a - 1/2) - sqrt(max(1/a - 3/2, 0)))`, a the exponent, between 0 and 2. At a fixed
    exponent convergence is slow, like `log log beta / log beta`.

    Example:
        >>> from tokenfield.theory.mode_counts import kde_modes_line_limit
        >>> kde_modes_line_limit(exponent=1.0)
        0.3898484006168381
    """
    a = positive("exponent", exponent)
    if a >= 2:
        raise ValueError(f"exponent must lie in (0, 2), got {shown(exponent)}")
    return math.sqrt(3) / math.pi * (math.sqrt(1 / a - 0.5) - math.sqrt(max(1 / a - 1.5, 0.0)))
