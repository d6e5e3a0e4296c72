"""Step sizes at which layers of repulsive attention stop behaving like the flow: overshoot, period two, collapse.

Equiangular tokens under `x <- N(x + h V Att(x))`, V = -1, softmax. A token is the sum of a component along the mean of the tokens
and one perpendicular to it. Attention multiplies the first by 1, because rows sum to 1, and the second by `delta = a - c`, where a
is the weight on the token itself and c that on another token. So a layer maps the ratio w of the two components to
`w (1 - h)/(1 - h delta)`.
"""

import math
from typing import NamedTuple

from .._check import count, number, positive


class CriticalSteps(NamedTuple):
    """Critical step sizes of layers with V = -1.

    Attributes:
        overshoot: above this step the mean of the tokens changes sign in each layer.
        unequal: above this step differences between the angles of a simplex grow and change sign in each layer.
        period_two: above this step the simplex is unstable even for equiangular tokens, which tend to a state of period two.
        collapse: above this step tokens collapse to one point, which changes sign in each layer.
    """

    overshoot: float
    unequal: float
    period_two: float
    collapse: float


class PeriodTwo(NamedTuple):
    """Equiangular tokens that return to their places after two layers.

    Attributes:
        cosine: the cosine of two tokens, the same in all layers.
        multiplier: factor by which one layer multiplies a small change of the angle; between -1 and 1 if the state attracts.
    """

    cosine: float
    multiplier: float


def weight_excess(gap: float, beta: float, n: int) -> float:
    """Return `delta`, the softmax weight on the token itself minus that on another, for tokens with `1 - cosine = gap`."""
    other = math.exp(-beta * gap)
    return -math.expm1(-beta * gap) / (1 + (n - 1) * other)


def critical_steps(beta: float, n: int) -> CriticalSteps:
    """Return the step sizes h at which repulsive layers (V = -1, Post-LN, softmax) on n equiangular tokens change behavior.

    The flow spreads tokens to a simplex, with cosine `-1/(n-1)`. There w = 0, and a layer multiplies w by
    `(1 - h)/(1 - h delta)`: negative above `h = 1`, below -1 above `h = 2/(1 + delta)`. Changes of the angles of the simplex are
    multiplied by `1 - h c k/(1 - h delta)`, c the weight on another token (k: see `angle_rates`), which is below -1 above
    `h = 2/(2 delta + c k)`. Above `h = 1/delta` both factors are above 1 instead, and the layer also maps the simplex to its
    opposite. One point has `delta = 0` and attracts if `|1 - h| > 1`.

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
    """Return the k of `critical_steps` for the two kinds of changes of a simplex's angles.

    A change of the cosines by `v_i + v_j` has `k = m (n - 2 + m beta)`, `m = n/(n-1)`; one whose rows sum to 0 has
    `k = 2 m beta`. For two tokens there is neither, for three only the first.
    """
    m = n / (n - 1)
    return [m * (n - 2 + m * beta), 2 * m * beta][: min(n - 2, 2)]


def period_two(h: float, beta: float, n: int) -> PeriodTwo:
    """Return the equiangular state whose ratio w changes sign in each layer, `(1 - h)/(1 - h delta) = -1`.

    `delta = 2/h - 1 = s` gives `cosine = 1 - log((1 + (n-1) s)/(1 - s))/beta`. The multiplier is
    `-1 + w M'(w)`, `M = (1 - h)/(1 - h delta)`, `w^2 = (n - (n-1) gap)/((n-1) gap)`.

    Args:
        h: the step size, between `critical_steps(beta, n).period_two` and 2.
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
