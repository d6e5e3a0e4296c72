"""Tokens drawn from a density follow it: how fast, and in which distance."""

from functools import lru_cache

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

BETA, TIMES = 2.0, np.array([0.0, 0.5, 1.0])
SIZES = np.array([16, 64, 256])
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
MODEL = tkf.Transformer(tkf.Softmax(beta=BETA), norm=tkf.PostLN())


@lru_cache(maxsize=1)
def start() -> tkf.CircleDensity:
    return tkf.CircleDensity.from_function(lambda a: np.exp(0.8 * np.cos(a) + 0.4 * np.sin(2 * a)), 96)


def padded(x, n: int) -> tkf.Tokens:
    """Return tokens of which the first n have equal weights and the others zero, so that one program serves every n."""
    return tkf.Tokens(x, (np.arange(len(x)) < n) / n)


def runs(repeats: int) -> dict[int, np.ndarray]:
    """Return (repeat, time, token, 2) tokens drawn from the density, for each n."""
    states = [padded(start().sample(SIZES[-1], seed=1000 * n + k).x, n) for n in SIZES for k in range(repeats)]
    found = tkf.simulate_many(MODEL, states, TIMES[-1], save_at=TIMES, rtol=1e-4, progress=False).dataset["x"].values
    return {n: found[i * repeats : (i + 1) * repeats, :, :n] for i, n in enumerate(SIZES)}


def slope(sizes, values) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def two_samples(d: int, sizes, repeats: int) -> np.ndarray:
    """Return (time, n) mean W_1 between two independent clouds on the sphere of R^d, at times 0 and 1 of their flows."""
    found = np.zeros((2, len(sizes)))
    for k in range(repeats):
        pairs = [(n, 2 * k + side) for n in sizes for side in range(2)]
        states = [padded(tkf.uniform_sphere(sizes[-1], d, seed=1000 * n + seed).x, n) for n, seed in pairs]
        moved = tkf.simulate_many(MODEL, states, 1.0, save_at=[0.0, 1.0], rtol=1e-4, progress=False).dataset["x"].values
        for i, n in enumerate(sizes):
            for t in range(2):
                pair = (tkf.Tokens(moved[2 * i + side, t, :n]) for side in range(2))
                found[t, i] += tkf.wasserstein(*pair, p=1, metric="geodesic") / repeats
    return found


def measure(quick: bool) -> Evidence:
    repeats, metric_repeats = (16, 4) if quick else (200, 20)
    densities = tkf.simulate(MODEL, start(), TIMES[-1], save_at=TIMES, rtol=1e-9, progress=False).states
    exact = [float(density.coefficients[0, 1]) / np.sqrt(2) for density in densities]  # mean of the first coordinate
    tokens = runs(repeats)
    errors = np.array(
        [[np.sqrt(np.mean((x[:, k, :, 0].mean(1) - exact[k]) ** 2)) for x in tokens.values()] for k in range(3)]
    )
    distances = np.array(
        [
            [
                np.mean([tkf.wasserstein(tkf.Tokens(x[r, k]), densities[k]) for r in range(metric_repeats)])
                for x in tokens.values()
            ]
            for k in (0, 2)
        ]
    )
    checks = []
    spread = 1 / np.sqrt(2 * repeats) / (np.sqrt(2) * np.log(4))  # standard error of a slope through three points
    for k, t in enumerate(TIMES):
        off = abs(slope(SIZES, errors[k]) + 0.5) / spread
        checks.append(
            at_most(f"t = {t:g}: power of n in the error of the mean: distance from -1/2, in standard errors", 3.5, off)
        )
    for k, t in enumerate((0.0, 1.0)):
        checks.append(
            close(
                f"t = {t:g}: power of n in W₂ to the density on the circle", -0.5, slope(SIZES, distances[k]), atol=0.15
            )
        )
    curves = {}
    for d in (5,) if quick else (4, 5, 6):
        sizes = np.array([40, 160, 640] if quick else [50, 100, 200, 400, 800, 1600])
        curves[d] = sizes, two_samples(d, sizes, 1 if quick else 4)
        for k, t in enumerate((0.0, 1.0)):
            power = slope(sizes, curves[d][1][k])
            checks.append(
                close(f"d = {d}, t = {t:g}: power of n in W₁ between two clouds", -1 / (d - 1), power, atol=0.06)
            )
    return Evidence(tuple(checks), draw(errors, distances, curves), CAPTION)


CAPTION = (
    "Left: SA on the circle, β = 2, from n tokens drawn from a density: error of the mean (dots) and W₂ to the density "
    "(triangles), at t = 0 and 1. Right: W₁ between two independent clouds on a sphere of higher dimension. Lines: the powers of n "
    "predicted."
)


def draw(errors, distances, curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for row, (k, color) in enumerate(((0, BLUE), (2, ORANGE))):
        for values, marker, what in ((errors[k], "o", "mean"), (distances[row], "^", "W₂")):
            points(left, SIZES, values, -0.5, marker, color, f"{what}, t = {TIMES[k]:g}", filled=what == "mean")
    left.set(ylabel="error", ylim=(errors.min() / 2, 5 * distances.max()))
    for color, (d, (sizes, values)) in zip((BLUE, ORANGE, GREEN), curves.items(), strict=False):
        for t, marker in ((0, "o"), (1, "^")):
            points(right, sizes, values[t], -1 / (d - 1), marker, color, f"d = {d}, t = {t}", filled=t == 0)
    largest = max(values.max() for _, values in curves.values())
    right.set(ylabel="W₁ between two clouds", ylim=(None, (1.4 + 0.3 * len(curves)) * largest))
    for ax, ticks in ((left, SIZES), (right, sizes[:: max(1, len(sizes) // 3)])):
        ax.set_xlabel("number of tokens n")
        ax.set_xticks(ticks, [str(n) for n in ticks])
        ax.set_xticks([], minor=True)
        ax.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    return figure


def points(ax, sizes, values, power, marker, color, label, filled):
    """Plot values, and a line with the predicted power of n through their middle."""
    ax.loglog(sizes, values, marker, color=color, mfc=color if filled else "none", label=label)
    middle = np.exp(np.mean(np.log(values) - power * np.log(sizes)))
    ax.loglog(sizes, middle * sizes.astype(float) ** power, color=color, lw=0.7)


CLAIM = Claim(
    id="propagation_of_chaos",
    section="Well-posedness and stability",
    title="Tokens follow their mean field",
    statement="Tokens drawn from a density stay near its flow: smooth observables have errors of order n^{-1/2} at all times. "
    "Wasserstein distances fall like n^{-1/2} on the circle, but only like n^{-1/(d-1)} on the sphere of R^d for d ≥ 4.",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2025; Fournier and Guillin 2015 (rates of empirical measures)",
    measure=measure,
)
