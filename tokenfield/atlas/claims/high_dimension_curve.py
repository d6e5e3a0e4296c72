"""Random tokens in high dimension follow the equiangular curve."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most

N, BETA, T1 = 32, 1.0, 8.0
DIMENSIONS = {8: "#D55E00", 128: "#009E73", 1024: "#0072B2"}


def mean_cosines(d: int, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean cosine over time for each seed: (seeds, times)."""
    model = tkf.Transformer(tkf.Softmax(BETA), norm=tkf.PostLN())
    runs = tkf.simulate_many(model, [tkf.uniform_sphere(N, d, seed=seed) for seed in seeds], T1, save_at=41)
    total = runs.dataset["x"].values.sum(axis=2)
    return runs.times, ((total**2).sum(axis=-1) - N) / (N * (N - 1))


def measure(quick: bool) -> Evidence:
    seeds = range(4 if quick else 24)
    model = tkf.Transformer(tkf.Softmax(BETA), norm=tkf.PostLN())
    exact = tkf.simulate(model, tkf.Equiangular(0.0, N), T1, save_at=41, rtol=1e-10, atol=1e-12).dataset["rho"].values
    curves, worst = {}, {}
    for d in DIMENSIONS:
        times, cosines = mean_cosines(d, seeds)
        curves[d] = times, cosines
        worst[d] = np.abs(cosines - exact).max(axis=1).mean()
    checks = [
        at_most("d = 1024: largest difference from the curve, mean over seeds", 0.03, worst[1024]),
        at_least("d = 8 to d = 128: the difference falls by a factor", 2.0, worst[8] / worst[128]),
        at_least("d = 128 to d = 1024: the difference falls by a factor", 1.8, worst[128] / worst[1024]),
    ]
    return Evidence(tuple(checks), draw(curves, exact), CAPTION)


CAPTION = (
    f"Mean cosine of {N} independent uniform tokens, SA, β = {BETA:g}, one thin line per seed, and the equiangular curve from "
    "ρ = 0 (black)."
)


def draw(curves, exact):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.8), layout="constrained")
    for ax, (d, (times, cosines)) in zip(figure.subplots(1, 3, sharey=True), curves.items(), strict=True):
        ax.plot(times, cosines.T, color=DIMENSIONS[d], lw=0.8)
        ax.plot(times, exact, "k--", lw=1.4)
        ax.set(title=f"d = {d}", xlabel="time t", xlim=(0, T1))
    figure.axes[0].set_ylabel("mean cosine")
    return figure


CLAIM = Claim(
    id="high_dimension_curve",
    section="Equiangular model",
    title="In high dimension random tokens follow the equiangular curve",
    statement="Independent uniform tokens in dimension d have cosines of order 1/√d, so as d grows their mean cosine under SA "
    "tends to the equiangular solution from ρ = 0.",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2025; Rigollet, The mean-field dynamics of Transformers, §4.2",
    measure=measure,
)
