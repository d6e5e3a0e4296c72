"""Transport in one dimension: measures on the circle, and zonal ones on the sphere, by their quantile functions.

On the circle `W_p^p = min_a C(a)`, `C(a) = ∫_0^1 |F^{-1}(u) - G^{-1}(u - a)|^p du`, where F and G are continued by turns
(Delon, Salomon, Sobolevski 2010). C is convex for p >= 1. Integrals are taken over angles rather than levels: where a density is
small its quantile function is steep, and the density itself is not.
"""

import math
from collections.abc import Callable

import numpy as np

from ..states import CircleDensity, Tokens, ZonalDensity
from ..states.zonal_density import heights

TURN = 2 * np.pi
FEWEST_NODES = 512  # of a smooth integral around the circle
Cost = Callable[[float], float]


def around_the_circle(mu: Tokens | CircleDensity, nu: Tokens | CircleDensity, p: float) -> float:
    """W_p with angles as distances."""
    match mu, nu:
        case Tokens(), Tokens():
            cost = _of_tokens(mu, nu, p)
        case CircleDensity(), CircleDensity():
            cost = _of_densities(mu, nu, p)
        case Tokens(), CircleDensity():
            cost = _of_tokens_and_density(mu, nu, p)
        case CircleDensity(), Tokens():
            cost = _of_tokens_and_density(nu, mu, p)
    return float(max(_least(cost, -1.0, 1.0), 0.0) ** (1 / p))


def _least(cost: Cost, low: float, high: float) -> float:
    """The minimum of a convex function, by golden sections down to rounding: it may be as sharp as |a|, or flat."""
    share = (math.sqrt(5) - 1) / 2
    a, b = high - share * (high - low), low + share * (high - low)
    at_a, at_b = cost(a), cost(b)
    while high - low > 1e-14 and not (high - low < 1e-7 and abs(at_a - at_b) <= 1e-15 * at_a):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - share * (high - low)
            at_a = cost(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + share * (high - low)
            at_b = cost(b)
    return min(at_a, at_b)


def _sorted(tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Angles in [0, 2 pi) in order, and the levels up to and with each."""
    x = np.asarray(tokens.x)
    angles = np.mod(np.arctan2(x[:, 1], x[:, 0]), TURN)
    order = np.argsort(angles, kind="stable")
    levels = np.cumsum(np.asarray(tokens.weights)[order])
    return angles[order], levels / levels[-1]


def _continued(quantile: Callable[[np.ndarray], np.ndarray], u: np.ndarray) -> np.ndarray:
    """A quantile function on [0, 1), continued by turns."""
    turns = np.floor(u)
    return TURN * turns + quantile(u - turns)


def _of_tokens(mu: Tokens, nu: Tokens, p: float) -> Cost:
    """Both quantile functions are steps: one value between two jumps."""
    (x, f), (y, g) = _sorted(mu), _sorted(nu)
    step = lambda angles, levels: lambda u: angles[np.minimum(np.searchsorted(levels, u, "right"), len(angles) - 1)]  # noqa: E731

    def cost(a: float) -> float:
        cuts = np.unique(np.concatenate([[0.0, 1.0], f, np.mod(g + a, 1.0)]))
        u = (cuts[1:] + cuts[:-1]) / 2
        gaps = np.abs(_continued(step(x, f), u) - _continued(step(y, g), u - a))
        return float(np.diff(cuts) @ gaps**p)

    return cost


def _of_densities(mu: CircleDensity, nu: CircleDensity, p: float) -> Cost:
    """`∫ |t - G^{-1}(F(t) - a)|^p f(t) dt`, a smooth periodic integrand for even p: the trapezoidal rule."""
    count = max(FEWEST_NODES, 8 * mu.modes, 8 * nu.modes)
    t = TURN * np.arange(count) / count
    (F, f), angles = mu.law(t), nu.quantile()

    def cost(a: float) -> float:
        return float(np.mean(TURN * f * np.abs(t - _continued(angles, F - a)) ** p))

    return cost


def _of_tokens_and_density(tokens: Tokens, density: CircleDensity, p: float) -> Cost:
    """Each token takes an arc of the density: `sum_i ∫_{arc i} |x_i - t|^p g(t) dt`, each arc cut where its token is."""
    x, levels = _sorted(tokens)
    few = 8 if len(x) < 200 else 4 if len(x) < 2000 else 2
    nodes, weights = np.polynomial.legendre.leggauss(few)
    angles = density.quantile()

    def cost(a: float) -> float:
        ends = _continued(angles, np.concatenate([[0.0], levels]) - a)
        middle = np.clip(x, ends[:-1], ends[1:])
        total = 0.0
        for low, high in ((ends[:-1], middle), (middle, ends[1:])):
            half = (high - low)[:, None] / 2
            t = low[:, None] + half * (1 + nodes)
            _, g = density.law(t.ravel())
            total += float((half * weights * g.reshape(t.shape) * np.abs(t - x[:, None]) ** p).sum())
        return total

    return cost


def along_meridians(mu: ZonalDensity, nu: ZonalDensity, p: float) -> float:
    """Zonal measures about one axis: `(∫_0^1 |a(u) - b(u)|^p du)^{1/p}` of the angles to the axis at each level.

    The distance of two points is at least the difference of their angles, and moving along meridians attains it. Levels are
    graded towards 0 and 1, where angles grow like `u^{1/(d-1)}`.
    """
    s, weights = np.polynomial.legendre.leggauss(400)
    s, power = (1 + s) / 2, 8
    low, high = s**power, (1 - s) ** power
    u = low / (low + high)
    slope = power * (s * (1 - s)) ** (power - 1) / (low + high) ** 2
    angle = lambda law: np.arccos(np.clip(heights(np.asarray(law.coefficients), law.d, u), -1, 1))  # noqa: E731
    return float((weights / 2 * slope) @ np.abs(angle(mu) - angle(nu)) ** p) ** (1 / p)
