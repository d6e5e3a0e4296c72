"""The number of Rényi centers of a random sequence of tokens."""

import numpy as np

import tokenfield as tkf

from ...observables.renyi import renyi_centers
from ..claim import Claim, Evidence, close

DELTA = {2: 0.2, 3: 0.5}
PLACES = 2 * np.pi / DELTA[2]


def cap(d: int) -> float:
    """Return the fraction of the circle (d = 2) or of the 2-sphere (d = 3) within geodesic distance delta of a point."""
    return DELTA[2] / np.pi if d == 2 else np.sin(DELTA[3] / 2) ** 2


def expected_strong(n: float, d: int) -> float:
    """Return `sum_{i<n} (1-p)^i = (1-(1-p)^n)/p`: a token is strong when all the i tokens before it miss its cap."""
    return -np.expm1(n * np.log1p(-cap(d))) / cap(d)


def parked(n: float) -> float:
    """Return the mean number of centers on the circle: how many of n cars of length delta find room to park.

    It is `L theta(n/L)`, `L = 2pi/delta`, `theta' = exp(-2 ∫_0^tau (1-e^{-v})/v dv)` for a Poisson number of cars, plus a
    correction for exactly n cars.
    """
    from scipy.integrate import quad
    from scipy.special import exp1

    speed = lambda u: np.exp(-2 * (exp1(u) + np.log(u) + np.euler_gamma))  # noqa: E731
    more = 0.0 if n == np.inf else -np.expm1(-n / PLACES) * speed(n / PLACES)
    return PLACES * quad(speed, 0, n / PLACES, limit=200)[0] + more


def count(n: int, d: int, draws: int, strong: bool) -> tuple[float, float]:
    """Return the mean number of centers over independent draws, and its standard error."""
    numbers = [len(renyi_centers(tkf.uniform_sphere(n, d, seed=k), DELTA[d], strong)) for k in range(draws)]
    return float(np.mean(numbers)), float(np.std(numbers) / np.sqrt(draws))


def measure(quick: bool) -> Evidence:
    draws, sizes = 150 if quick else 2000, (10, 30, 100, 400, 3000)
    kinds, checks = ((2, False), (2, True), (3, True)), []
    counts = {(d, strong): {n: count(n, d, draws, strong) for n in sizes} for d, strong in kinds}
    for d, limit in ((2, np.pi / DELTA[2]), (3, 1 / np.sin(DELTA[3] / 2) ** 2)):
        for n, expected, name in ((30, expected_strong(30, d), "n = 30"), (3000, limit, "n = 3000, the limit")):
            mean, error = counts[d, True][n]
            checks.append(close(f"d = {d}, {name}: mean number of strong centers", expected, mean, atol=4 * error))
    for n in (100, 3000):
        mean, error = counts[2, False][n]
        checks.append(close(f"d = 2, n = {n}: mean number of centers", parked(n), mean, atol=4 * error))
    checks.append(close("d = 2, n = 3000: the same, against the limit", parked(np.inf), mean, rtol=0.01))
    return Evidence(tuple(checks), draw(counts), CAPTION)


CAPTION = (
    "Mean number of Rényi centers of n independent uniform tokens, δ = 0.2 on the circle and 0.5 on the sphere: exact "
    "and parking formulas (lines), random draws (dots; the standard errors are smaller). Dotted: limits n → ∞."
)


def draw(counts):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax, n = figure.subplots(), np.geomspace(8, 4000, 60)
    for key, line, limit, color, label in (
        ((2, False), [parked(k) for k in n], parked(np.inf), "#D55E00", "centers, d = 2"),
        ((3, True), expected_strong(n, 3), 1 / cap(3), "#009E73", "strong centers, d = 3"),
        ((2, True), expected_strong(n, 2), 1 / cap(2), "#0072B2", "strong centers, d = 2"),
    ):
        ax.plot(n, line, color=color, label=label)
        ax.axhline(limit, color=color, ls=":", lw=1)
        ax.plot(list(counts[key]), [mean for mean, _ in counts[key].values()], "o", ms=4.5, color=color)
    ax.set(xscale="log", xlabel="number of tokens n", ylabel="mean number of centers", ylim=(0, None))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="renyi_centers",
    section="Causal attention",
    title="The number of Rényi centers",
    statement="Of n independent uniform tokens, (1-(1-p)^n)/p are strong Rényi centers on average, p the mass of a cap of "
    "radius δ; as n → ∞ this is π/δ on the circle and 1/sin²(δ/2) on the 2-sphere. Centers on the circle are like cars of length "
    "δ that park at random: there are about .7476 · 2π/δ as n → ∞, and Rényi's parking kinetics gives the mean at finite n.",
    source="Karagodin, Polyanskiy, Rigollet 2024 (Clustering in causal attention masking); Rényi 1958; derived here",
    measure=measure,
)
