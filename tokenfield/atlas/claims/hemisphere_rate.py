"""Tokens that start in an open hemisphere converge to one point, with an exact terminal rate."""

import math

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, close

N, D, MARGIN = 16, 3, 0.2
COLORS = ("#0072B2", "#009E73", "#D55E00")
FLOWS = {"SA": (tkf.Softmax, lambda beta: 1.0), "USA": (tkf.Unnormalized, math.exp)}


def diameters(x: np.ndarray) -> np.ndarray:
    """Return the largest distance between two tokens, at each time of (times, n, d)."""
    return np.linalg.norm(x[:, :, None] - x[:, None], axis=-1).max(axis=(1, 2))


def measure(quick: bool) -> Evidence:
    betas = (0.5, 1.0, 2.0)
    seeds = range(1 if quick else 8)
    checks, curves = [], {}
    for flow, (attention, rate) in FLOWS.items():
        least = []
        for beta in betas:
            slopes = []
            for seed in seeds:
                model = tkf.Transformer(attention(beta=beta), norm=tkf.PostLN())
                start = tkf.hemisphere(N, D, seed=seed, margin=MARGIN)
                run = tkf.simulate(model, start, t1=30 / rate(beta), rtol=1e-10, atol=1e-12)
                x, clock = run.dataset["x"].values, run.times * rate(beta)
                width = diameters(x)
                late = (width > 1e-6) & (width < 1e-2)
                slopes.append(np.polyfit(clock[late], np.log(width[late]), 1)[0] * -rate(beta))
                least.append(np.diff(x[..., 0].min(axis=1)).min())
            curves[flow, beta] = clock, width
            worst = max(slopes, key=lambda slope: abs(slope - rate(beta)))
            checks.append(
                close(f"{flow}, β = {beta:g}: terminal decay rate of the diameter", rate(beta), worst, rtol=1e-3)
            )
        # The hemisphere is <x, e_1> > 0, so w = e_1: min_i <x_i, w> cannot decrease, up to rounding.
        checks.append(at_least(f"{flow}: smallest change in time of min_i <x_i, w>", -1e-11, min(least)))
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = (
    "Largest distance between two of 16 tokens that start in a hemisphere of the 2-sphere: measured (dots), and lines with the "
    "predicted rate of decay, 1 in t for SA and 1 in e^β t for USA, through the last point above 1e-5."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = dict(zip(FLOWS, figure.subplots(1, 2, sharex=True, sharey=True), strict=True))
    for index, ((flow, beta), (clock, width)) in enumerate(curves.items()):
        color = COLORS[index % 3]
        anchor = np.flatnonzero(width > 1e-5)[-1]
        above = clock > clock[anchor] - 10
        axes[flow].plot(clock[above], width[anchor] * np.exp(clock[anchor] - clock[above]), color=color, lw=1)
        axes[flow].plot(clock[::3], width[::3], "o", ms=3.5, color=color, label=f"β = {beta:g}")
    for flow, ax in axes.items():
        ax.set(yscale="log", xlim=(0, 22), ylim=(1e-7, 3), title=flow)
        ax.set_xlabel("time t" if flow == "SA" else r"rescaled time $e^{\beta}\,t$")
    axes["SA"].set_ylabel("diameter of the tokens")
    axes["SA"].legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="hemisphere_rate",
    section="Clustering on the sphere",
    title="Exponential clustering from a hemisphere",
    statement="If all tokens start in one open hemisphere, <x_i, w> > 0, they converge to one point exponentially fast, and "
    "min_i <x_i, w> never decreases. The terminal rate is that of the linearized flow: distances decay like e^{-t} under "
    "SA for every β, and like e^{-λt} with λ = e^β under USA (1 - cosine decays at twice these rates).",
    source="Rigollet, The mean-field dynamics of Transformers, Theorem 3 and §6.1; Geshkovski, Letrouit, Polyanskiy, "
    "Rigollet 2025",
    measure=measure,
)
