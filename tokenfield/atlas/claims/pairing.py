"""Only the closest pair moves: the right rescaling of time, and the role of the masses."""

import math

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

RHO0, RHO1 = 0.8, 0.9
MASSES = {"equal masses": (1 / 3, 1 / 3, 1 / 3), "masses 1:3:2": (1 / 6, 1 / 2, 1 / 3)}


def rescaled(beta: float, masses: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return along a run of three tokens: log t, the closest pair's cosine, rescaled time s, displacement of the third token.

    `s = ∫ e^{-beta(1-rho)} dt`, with the times and cosines of the run.
    """
    from scipy.integrate import cumulative_simpson

    angle = math.acos(RHO0)
    state = tkf.Tokens(tkf.circle_tokens([0.0, angle, angle + 1.5]).x, weights=masses)
    pair = masses[0] / (masses[0] + masses[1]), masses[1] / (masses[0] + masses[1])
    grid = np.linspace(RHO0, RHO1, 161)[1:]
    times = np.array([tkf.theory.pair_merge_time(RHO0, rho, beta, pair) for rho in grid])
    model = tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN())
    run = tkf.simulate(model, state, times[-1], save_at=np.append(0.0, times), method="coarsen", progress=False)
    x = run.dataset["x"].values
    rho = np.einsum("td,td->t", x[:, 0], x[:, 1])
    s = cumulative_simpson(np.exp(-beta * (1 - rho)), x=run.times, initial=0.0)
    return run.times, rho, s, float(np.linalg.norm(x[-1, 2] - x[0, 2]))


def measure(quick: bool) -> Evidence:
    betas = (30.0, 120.0) if quick else (30.0, 60.0, 120.0, 200.0)
    checks, curves = [], {}
    for words, masses in MASSES.items():
        rate = masses[0] / masses[1] + masses[1] / masses[0]
        for beta in betas:
            times, rho, s, moved = rescaled(beta, masses)
            limit = np.tanh(rate * s + math.atanh(RHO0))
            away = np.abs(rho - limit).max()
            curves[words, beta] = times, rho, s, rate
        checks.append(
            at_most(
                f"{words}, β = {beta:g}: distance from tanh({rate:.3g} s + artanh ρ₀), time rescaled by current ρ",
                1e-3,
                away,
            )
        )
        checks.append(at_most(f"{words}, β = {beta:g}: displacement of the third token", 1e-3, moved))
        if words != "equal masses":
            wrong = np.abs(rho - np.tanh(2 * s + math.atanh(RHO0))).max()
            checks.append(
                at_most("as printed, without masses: distance from tanh(2s + artanh ρ₀)", 1e-3, wrong, printed=True)
            )
    times, rho, _, _ = curves["equal masses", betas[-1]]
    first = times * math.exp(-betas[-1] * (1 - RHO0))  # the printed rescaled time, with the initial inner product
    wrong = np.abs(rho - np.tanh(2 * first + math.atanh(RHO0))).max()
    checks.append(
        at_most("as printed, time rescaled by the initial ρ: distance from the limit", 1e-3, wrong, printed=True)
    )
    predicted = 1 / (2 * betas[-1] * (1 - RHO0**2))
    checks.append(
        close(
            "in that rescaled time the pair merges at about 1/(2β(1-ρ₀²)), which tends to 0",
            predicted,
            float(first[-1]),
            rtol=0.05,
        )
    )
    return Evidence(tuple(checks), draw(curves, betas), CAPTION)


CAPTION = (
    "Cosine of the closest pair of three tokens against rescaled time s. Left: dt = e^{β(1-ρ(t))} ds; runs fall on "
    "tanh(ks + artanh ρ₀) (black). Right: s as printed, with the initial cosine; runs leave the printed curve at once."
)


def draw(curves, betas):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for words, color in zip(MASSES, ("#0072B2", "#D55E00"), strict=True):
        for beta, style in zip((betas[0], betas[-1]), (":", "-"), strict=True):
            times, rho, s, rate = curves[words, beta]
            left.plot(s, rho, style, color=color, label=f"{words}, β = {beta:g}")
            right.plot(times * math.exp(-beta * (1 - RHO0)), rho, style, color=color)
        line = np.linspace(0, s[-1], 50)
        left.plot(line, np.tanh(rate * line + math.atanh(RHO0)), "k--", lw=0.8)
    line = np.linspace(0, right.get_xlim()[1], 50)
    right.plot(line, np.tanh(2 * line + math.atanh(RHO0)), "k--", lw=0.8)
    left.set(xlabel="s, by the current cosine", ylabel="cosine ρ of the pair")
    right.set(xlabel="s, by the initial cosine")
    left.legend(frameon=False, fontsize=7)
    return figure


CLAIM = Claim(
    id="pairing",
    section="Metastability",
    title="Only the closest pair moves, in a time rescaled by its current inner product",
    statement="As β grows, with dt = e^{β(1-ρ(t))} ds and ρ the current cosine of the closest pair, only that pair moves: "
    "ρ(s) = tanh((m_j/m_i + m_i/m_j) s + artanh ρ₀). The pair meets at s = ∞. The printed statement has the initial inner product "
    "in the rescaling, no masses, and a finite rescaled merge time.",
    source="Bruno, Pasqualotto, Agazzi 2025, as stated in Rigollet, The mean-field dynamics of Transformers, Theorem 6",
    measure=measure,
)
