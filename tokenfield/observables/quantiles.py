"""Optimal transport in one dimension by quantile functions: measures on the circle, and zonal measures on the sphere.

On the circle `W_p^p = min_a C(a)`, `C(a) = ∫_0^1 |F^{-1}(u) - G^{-1}(u - a)|^p du`, where F and G are extended by whole
periods (Delon, Salomon, Sobolevski 2010). C is convex for p >= 1. Integrals are taken over angles instead of levels: where
a density is small, its quantile function is steep, but the density itself is not.
"""

import math
from collections.abc import Callable

import numpy as np

from ..states import CircleDensity, Tokens, ZonalDensity
from ..states.zonal_density import heights

TWO_PI = 2 * np.pi
FEWEST_NODES = 512  # for a smooth integral around the circle
PANELS, PANEL_NODES, ROOT_STEPS = 128, 6, 5  # for an integral with kinks
Cost = Callable[[float], float]
Function = Callable[[np.ndarray], np.ndarray]


def around_the_circle(mu: Tokens | CircleDensity, nu: Tokens | CircleDensity, p: float) -> float:
    """Return W_p on the circle, with angles as distances."""
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
    """Return the minimum of a convex function, which may have a kink or be flat, by golden-section search to rounding."""
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
    """Return the sorted angles in [0, 2 pi), and the cumulative weight up to and including each."""
    x = np.asarray(tokens.x)
    angles = np.mod(np.arctan2(x[:, 1], x[:, 0]), TWO_PI)
    order = np.argsort(angles, kind="stable")
    levels = np.cumsum(np.asarray(tokens.weights)[order])
    return angles[order], levels / levels[-1]


def _continued(quantile: Callable[[np.ndarray], np.ndarray], u: np.ndarray) -> np.ndarray:
    """Evaluate a quantile function on [0, 1), extended to all u by whole periods."""
    periods = np.floor(u)
    return TWO_PI * periods + quantile(u - periods)


def _of_tokens(mu: Tokens, nu: Tokens, p: float) -> Cost:
    """Return the cost for two sets of tokens, whose quantile functions are step functions."""
    (x, f), (y, g) = _sorted(mu), _sorted(nu)
    step = lambda angles, levels: lambda u: angles[np.minimum(np.searchsorted(levels, u, "right"), len(angles) - 1)]  # noqa: E731

    def cost(a: float) -> float:
        cuts = np.unique(np.concatenate([[0.0, 1.0], f, np.mod(g + a, 1.0)]))
        u = (cuts[1:] + cuts[:-1]) / 2
        gaps = np.abs(_continued(step(x, f), u) - _continued(step(y, g), u - a))
        return float(np.diff(cuts) @ gaps**p)

    return cost


def _of_densities(mu: CircleDensity, nu: CircleDensity, p: float) -> Cost:
    """Return the cost `∫ |t - G^{-1}(F(t) - a)|^p f(t) dt`. For even p it is smooth and periodic: trapezoidal rule."""
    count, angles = max(FEWEST_NODES, 8 * mu.modes, 8 * nu.modes), nu.quantile()
    t = TWO_PI * np.arange(count) / count
    F, f = mu.law(t)

    def even(a: float) -> float:
        return float(np.mean(TWO_PI * f * np.abs(t - _continued(angles, F - a)) ** p))

    def other(a: float) -> float:
        gap = lambda t: t - _continued(angles, mu.law(t)[0] - a)  # noqa: E731
        return _with_kinks(gap, lambda t: mu.law(t)[1], np.linspace(0, TWO_PI, count // 4 + 1), p)

    return even if p % 2 == 0 else other


def _with_kinks(gap: Function, density: Function, cuts: np.ndarray, p: float) -> float:
    """Return `∫ |gap|^p density` by Gauss–Legendre panels, split where the gap changes sign and `|gap|^p` has kinks."""
    values = gap(cuts)
    changes = values[:-1] * values[1:] < 0
    if changes.any():
        where, what = ((part[:-1][changes], part[1:][changes]) for part in (cuts, values))
        cuts = np.sort(np.append(cuts, _roots(gap, *where, *what)))
    nodes, weights = np.polynomial.legendre.leggauss(PANEL_NODES)
    half = np.diff(cuts)[:, None] / 2
    t = (cuts[:-1, None] + half * (1 + nodes)).ravel()
    return float((half * weights).ravel() @ (np.abs(gap(t)) ** p * density(t)))


def _roots(f: Function, a: np.ndarray, b: np.ndarray, at_a: np.ndarray, at_b: np.ndarray) -> np.ndarray:
    """Return roots of f between each a and b, where f has different signs, by the Illinois method."""
    for _ in range(ROOT_STEPS):
        c = b - at_b * (b - a) / np.where(at_b == at_a, 1.0, at_b - at_a)
        at_c = f(c)
        stays = at_c * at_b > 0
        a, at_a = np.where(stays, a, b), np.where(stays, at_a / 2, at_b)
        b, at_b = c, at_c
    return b


def _of_tokens_and_density(tokens: Tokens, density: CircleDensity, p: float) -> Cost:
    """Return the cost `sum_i ∫_{arc i} |x_i - t|^p g(t) dt`: each token gets an arc of the density, split at the token."""
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
    """Return W_p of zonal measures about one axis, `(∫_0^1 |a(u) - b(u)|^p du)^{1/p}`, where a and b are angles to the axis.

    The distance between two points is at least the difference of their angles, and transport along meridians attains it.
    Levels u are graded toward 0 and 1, where angles grow like `u^{1/(d-1)}`.
    """
    power = 8
    share = lambda s: s**power + (1 - s) ** power  # noqa: E731
    slope = lambda s: power * (s * (1 - s)) ** (power - 1) / share(s) ** 2  # noqa: E731
    angle = lambda law, u: np.arccos(np.clip(heights(np.asarray(law.coefficients), law.d, u), -1, 1))  # noqa: E731

    def gap(s: np.ndarray) -> np.ndarray:
        u = s**power / share(s)
        return angle(mu, u) - angle(nu, u)

    if p % 2:
        return _with_kinks(gap, slope, np.linspace(0, 1, PANELS + 1), p) ** (1 / p)
    s, weights = np.polynomial.legendre.leggauss(400)
    s = (1 + s) / 2
    return float((weights / 2 * slope(s)) @ np.abs(gap(s)) ** p) ** (1 / p)
