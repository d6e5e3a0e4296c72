"""Repulsive values, V = -I: the tokens themselves (not rescaled) tend to 0, like t^{-1/2}."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

N, D = 24, 3
TIMES = np.concatenate([[0.0], np.logspace(-1, 4, 61)])


def covariances(A: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance C(t) (times, d, d) and the largest norm max_i |x_i(t)| along one run."""
    model = tkf.Transformer(tkf.Softmax(A=A, V=-1.0))
    start = tkf.gaussian_tokens(N, D, seed=seed)
    run = tkf.simulate(model, start, TIMES[-1], save_at=TIMES, rtol=1e-8, atol=1e-10, progress=False)
    x = run.dataset["x"].values
    y = x - x.mean(axis=1, keepdims=True)
    return np.einsum("tni,tnj->tij", y, y) / N, np.linalg.norm(x, axis=-1).max(axis=1)


def measure(quick: bool) -> Evidence:
    late = TIMES >= 100
    slopes, constants, lengths, general, spreads = [], [], [], [], []
    for seed in range(3 if quick else 20):
        C, longest = covariances(np.eye(D), seed)
        spread = np.sqrt(np.trace(C, axis1=1, axis2=2))
        slopes.append(np.polyfit(np.log(TIMES[late]), np.log(spread[late]), 1)[0])
        constants.append(2 * TIMES[-1] * np.linalg.eigvalsh(C[-1]))
        lengths.append(longest[-1])
        spreads.append(spread)
        B = np.random.default_rng(100 + seed).standard_normal((D, D))
        A = B @ B.T / D + 0.5 * np.eye(D)
        general.append(np.abs(2 * TIMES[-1] * A @ covariances(A, seed)[0][-1] - np.eye(D)).max())
    worst = max(slopes, key=lambda slope: abs(slope + 0.5))
    eigenvalue = max(np.ravel(constants), key=lambda value: abs(value - 1))
    checks = (
        close("slope of log spread against log t, 100 ≤ t ≤ 10⁴ (worst seed)", -0.5, worst, atol=0.003),
        close("2 t λ(C), t = 10⁴ (worst eigenvalue and seed)", 1.0, eigenvalue, rtol=0.002),
        at_most("A > 0 not a multiple of I: largest |entry| of 2 t A C − I, t = 10⁴", 0.002, max(general)),
        at_most("largest |x_i| at t = 10⁴, against (n d/2t)^{1/2}", np.sqrt(N * D / (2 * TIMES[-1])), max(lengths)),
    )
    return Evidence(
        checks, draw(spreads[:3]), "24 tokens in R^3, V = −I, A = I: the same decay from three random starts."
    )


def draw(spreads):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="time $t$", ylabel="root-mean-square spread", xscale="log", yscale="log")
    for seed, (spread, color) in enumerate(zip(spreads, ("#0072B2", "#009E73", "#CC79A7"), strict=False)):
        axes.plot(TIMES[1:], spread[1:], color=color, label=f"start {seed + 1}")
    axes.plot(TIMES[20:], np.sqrt(D / (2 * TIMES[20:])), "--", color="#D55E00", lw=2, label=r"$\sqrt{d/(2t)}$")
    axes.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="collapse_to_zero",
    section="Clustering in R^d",
    title="Repulsive values: all tokens tend to 0",
    statement="With V = −I and A = I the tokens x themselves, not rescaled, tend to 0 slowly: their spread decays "
    "like t^{−1/2}. Near 0 attention is affine, Γ(x) ≈ −(m + CAx) with mean m and covariance C, so C′ = −2CAC and C ~ "
    "A^{−1}/2t for every A > 0 and every start. For A = I the root-mean-square spread is (d/2t)^{1/2}.",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet, The emergence of clusters in self-attention dynamics, NeurIPS "
    "2023 (the limit); the rate and its constant are derived here",
    measure=measure,
)
