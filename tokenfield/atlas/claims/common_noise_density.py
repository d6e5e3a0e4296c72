"""Under common noise the density is random; on each path of the noise it agrees with the tokens."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, close
from ..fits import slope

KAPPA, T1, TIMES = 6.0, 0.5, 6
COLORS = ("#0072B2", "#D55E00", "#009E73")
SOFTMAX, STILL = tkf.Softmax(2.0), tkf.Linear(1.0, V=0.0)


def model(attention) -> tkf.Transformer:
    return tkf.Transformer(attention, norm=tkf.PostLN(), noise=tkf.CommonNoise(KAPPA))


def start(modes: int) -> tkf.CircleDensity:
    return tkf.CircleDensity.from_function(lambda a: 1 + 0.4 * np.cos(a) + 0.3 * np.sin(2 * a), modes)


def mean(state) -> complex:
    """Return `∫ e^{ia} dmu`."""
    if isinstance(state, tkf.Tokens):
        return complex(np.asarray(state.weights) @ (np.asarray(state.x) @ [1, 1j]))
    return complex(np.asarray(state.coefficients)[:, 1] @ [1, 1j]) / np.sqrt(2)


def run(state, seed: int):
    return tkf.simulate(model(SOFTMAX), state, T1, seed=seed, save_at=TIMES, dt=0.02, progress=False)


def tokens(n: int) -> tkf.Tokens:
    """Return n tokens of equal weight at the quantiles of the initial density."""
    return tkf.circle_tokens(start(16).angles((np.arange(n) + 0.5) / n))


def samples(dense, seed: int, n: int) -> float:
    """Return the rms distance at T1 between the means of the density and of n independent tokens on the same path."""
    starts = [start(16).sample(n, seed=100 * seed + k) for k in range(12)]
    many = tkf.simulate_many(model(SOFTMAX), starts, T1, seeds=[seed] * 12, save_at=[T1], dt=0.02, progress=False)
    found = many.dataset["x"].values[:, 0] @ [1, 1j]
    return float(np.sqrt((np.abs(found.mean(1) - mean(dense.final)) ** 2).mean()))


def measure(quick: bool) -> Evidence:
    seeds, sizes = range(3) if quick else range(10), np.array([25, 100, 400] if quick else [50, 200, 800, 3200])
    dense = {seed: run(start(64), seed) for seed in seeds}
    gaps = np.array([[samples(dense[seed], seed, n) for n in sizes] for seed in seeds])
    fit = slope(np.tile(np.log(sizes), len(gaps)), np.log(gaps).ravel())
    what = f"power of n in the distance of independent tokens from the density on one path, {fit.interval}"
    checks = [close(what, -0.5, fit.value, atol=max(1.5 * fit.half, 0.05))]
    for seed in list(seeds)[:3]:
        a = 2 * np.pi * np.arange(400) / 400
        p = start(16).density(np.stack([np.cos(a), np.sin(a)], axis=1))
        cloud = run(tkf.Tokens(np.stack([np.cos(a), np.sin(a)], axis=1), p / p.sum()), seed)
        pairs = zip(dense[seed].states, cloud.states, strict=True)
        gap = max(abs(mean(density) - mean(moved)) for density, moved in pairs)
        checks.append(
            close(f"path {seed}: mean of the density minus that of 400 weighted tokens, all times", 0.0, gap, atol=1e-8)
        )
        gap = abs(mean(dense[seed].final) - mean(run(tokens(100), seed).final))
        checks.append(
            close(f"path {seed}: mean of the density minus that of 100 tokens at its quantiles", 0.0, gap, atol=1e-6)
        )
    ends = np.array([mean(dense[seed].final) for seed in seeds])
    apart = float(np.abs(ends[:, None] - ends).max())
    checks.append(at_least("largest distance between the means on two paths: the density is random", 0.1, apart))
    many = 200 if quick else 2000
    still = tkf.simulate_many(model(STILL), start(128), 0.2, seeds=range(many), save_at=[0.2], dt=0.1, progress=False)
    first = still.dataset["coefficients"].values[:, 0, 0, 1] / np.sqrt(2)
    exact, error = 0.2 * np.exp(-0.2 / KAPPA), float(first.std() / np.sqrt(many))
    checks.append(close("without drift: mean of ∫cos a over paths", exact, float(first.mean()), atol=4 * error))
    return Evidence(tuple(checks), draw(dense, sizes, gaps), CAPTION)


CAPTION = (
    "SA with β = 2 on the circle, common noise with κ = 6. Left: the density at t = 0.5 on three paths of the noise (lines), "
    "and histograms of 2000 tokens on the same paths (dots). Right: distance at that time between the means of the density and "
    "of n independent tokens on the same path, root mean square over 12 starts; each dot is a path, the line has slope −1/2."
)


def draw(dense, sizes, gaps):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    a = np.linspace(0, 2 * np.pi, 500)
    for seed, color in zip(dense, COLORS, strict=False):
        x = np.asarray(run(tokens(2000), seed).final.x)
        angles = np.mod(np.arctan2(x[:, 1], x[:, 0]), 2 * np.pi)
        share, edges = np.histogram(angles, 40, range=(0, 2 * np.pi))
        left.plot((edges[1:] + edges[:-1]) / 2, 40 * share / len(angles), "o", ms=2.5, color=color)
        left.plot(
            a, dense[seed].final.density(np.stack([np.cos(a), np.sin(a)], axis=1)), color=color, label=f"path {seed}"
        )
    left.set(xlabel="angle", ylabel="density", xlim=(0, 2 * np.pi))
    left.set_xticks([0, np.pi, 2 * np.pi], labels=["0", "π", "2π"])
    left.legend(frameon=False, fontsize=8)
    for row in gaps:
        right.loglog(sizes, row, "o", ms=4, color=COLORS[0])
    center = np.exp(np.log(gaps).mean(0))
    right.loglog(sizes, center[0] * (sizes / sizes[0]) ** -0.5, color="0.3", lw=1)
    right.set(xlabel="number n of tokens", ylabel="distance from the density")
    right.set_xticks(sizes, labels=[str(n) for n in sizes])
    right.set(ylim=(0.01, 0.5))
    right.set_yticks([0.01, 0.03, 0.1, 0.3], labels=["0.01", "0.03", "0.1", "0.3"])
    right.minorticks_off()
    return figure


CLAIM = Claim(
    id="common_noise_density",
    section="Noise",
    title="Common noise gives a random density, which tokens follow path by path",
    statement="If one Brownian motion B moves all tokens, their law given B is a random density, dp = −∇·(pu)dt + (1/κ)Δp dt − "
    "√(2/κ) ∇·(p P dB). On each path of B, tokens follow this density: tokens at the quantiles of a smooth density almost exactly, "
    "independent tokens at a distance of order n^(−1/2). Without drift, the mean of the density over B obeys the heat equation.",
    source="noise models of the survey; derived here",
    measure=measure,
)
