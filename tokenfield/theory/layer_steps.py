"""Step sizes at which layers of repulsive attention stop being like the flow: overshoot, period two, collapse.

Tokens at equal angles under `x <- N(x + h V Att(x))`, V = -1, softmax. A token is the sum of its share of the mean direction and
of a part perpendicular to it. Attention multiplies the share by 1, as rows sum to 1, and the other part by `delta = a - c`, the
difference of the weights on the token itself and on another. So the ratio w of both parts becomes `w (1 - h)/(1 - h delta)`.
"""

import math
from typing import NamedTuple

from .._check import count, number, positive


class CriticalSteps(NamedTuple):
    """Step sizes of layers with V = -1.

    Attributes:
        overshoot: above it the mean of the tokens changes its sign in each layer.
        unequal: above it differences between the angles of a simplex grow, with a sign that changes in each layer.
        period_two: above it the simplex is unstable even at equal angles, where tokens come to a state of period two.
        collapse: above it tokens meet in one point, which changes its sign in each layer.
    """

    overshoot: float
    unequal: float
    period_two: float
    collapse: float


class PeriodTwo(NamedTuple):
    """Tokens at equal angles that return after two layers.

    Attributes:
        cosine: the cosine of two tokens, the same in all layers.
        multiplier: the factor of a small change of the angle in one layer; between -1 and 1 if nearby angles come closer.
    """

    cosine: float
    multiplier: float


def weight_excess(gap: float, beta: float, n: int) -> float:
    """Return `delta`, the softmax weight on the token itself minus that on another, for tokens with `1 - cosine = gap`."""
    other = math.exp(-beta * gap)
    return -math.expm1(-beta * gap) / (1 + (n - 1) * other)


def critical_steps(beta: float, n: int) -> CriticalSteps:
    """Return steps h at which repulsive layers (V = -1, Post-LN, softmax) on n tokens at equal angles change their behavior.

    The flow spreads tokens to a simplex, the cosine `-1/(n-1)`. Its ratio w is 0, and a layer multiplies w by
    `(1 - h)/(1 - h delta)`: negative above `h = 1`, below -1 above `h = 2/(1 + delta)`. Changes of the angles of the simplex are
    multiplied by `1 - h c k/(1 - h delta)`, c the weight on another token (`angle_rates`), which is below -1 above
    `h = 2/(2 delta + c k)`. One point has `delta = 0` and attracts if `|1 - h| > 1`.

    Args:
        beta: inverse temperature, > 0.
        n: number of tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.critical_steps(beta=2.0, n=3).period_two
        1.0728666930377897
    """
    beta, n = positive("beta", beta), count("n", n, 2)
    delta = weight_excess(n / (n - 1), beta, n)
    unequal = [2 / (2 * delta + (1 - delta) / n * k) for k in angle_rates(beta, n)]
    return CriticalSteps(1.0, min(unequal, default=math.inf), 2 / (1 + delta), 2.0)


def angle_rates(beta: float, n: int) -> list[float]:
    """The numbers k of the changes of a simplex's angles: those of one token with all others, and those with none on average.

    A change of the cosines by `v_i + v_j` has `k = m (n - 2 + m beta)`, `m = n/(n-1)`; one whose rows sum to 0 has
    `k = 2 m beta`. Two tokens have neither, three only the first.
    """
    m = n / (n - 1)
    return [m * (n - 2 + m * beta), 2 * m * beta][: min(n - 2, 2)]


def period_two(h: float, beta: float, n: int) -> PeriodTwo:
    """Return tokens at equal angles whose ratio w changes its sign in each layer, `(1 - h)/(1 - h delta) = -1`.

    `delta = 2/h - 1 = s` gives `cosine = 1 - log((1 + (n-1) s)/(1 - s))/beta`. The multiplier is
    `-1 + w M'(w)`, `M = (1 - h)/(1 - h delta)`, `w^2 = (n - (n-1) gap)/((n-1) gap)`.

    Args:
        h: the step, between `critical_steps(beta, n).period_two` and 2.
        beta: inverse temperature, > 0.
        n: number of tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.period_two(h=1.7, beta=1.0, n=4).cosine
        0.3809607915937764
    """
    low, high = critical_steps(beta, n)[2:]
    h = number("h", h)
    if not low < h < high:
        raise ValueError(f"h must lie between {low:.6g} and 2 for beta = {beta:g}, n = {n}, got {h:g}")
    s = 2 / h - 1
    gap = math.log((1 + (n - 1) * s) / (1 - s)) / beta
    other = math.exp(-beta * gap)
    slope = n * beta * other / (1 + (n - 1) * other) ** 2  # d delta / d gap
    by_w = -2 * gap * (n - (n - 1) * gap) / n  # w d gap / dw: gap = n / ((n-1)(1 + w^2))
    return PeriodTwo(1 - gap, -1 + (1 - h) * h * slope * by_w / (1 - h * s) ** 2)
