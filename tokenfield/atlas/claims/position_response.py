"""How the last token responds to a perturbation at each position, near the uniform measure."""

import numpy as np
from scipy.linalg import expm

from ... import theory
from ..claim import Claim, Evidence, at_most, close
from ..linearized import near_uniform, richardson, weights

BETA, MODE, COPIES = 1.0, 1, 16
SLOPES, GROWTHS = (0.0, 2.0), (0.3, 0.9, 1.7)
TAU = np.array([0.25, 0.5, 0.75])
COLORS = ("black", "#0072B2", "#D55E00")


def measure(quick: bool) -> Evidence:
    rate = theory.growth_rates(BETA, 2, modes=[MODE])[0]
    n = 16 if quick else 128
    run = near_uniform(n, BETA, MODE, COPIES)
    rows = {(slope, c): run(slope, c / rate) for slope in SLOPES for c in GROWTHS}
    matrix = max(np.abs(row - expm(c * weights(n, slope))[-1]).max() for (slope, c), row in rows.items())
    checks = [at_most(f"derivative of runs with {n} positions minus the exponential of their matrix", 1e-8, matrix)]
    sizes = (16, 32, 64, 128)
    for slope in SLOPES:
        c = 0.9
        exact = theory.position_response(TAU, c, slope=slope)
        found = [m * expm(c * weights(m, slope))[-1] for m in sizes]
        if not quick:
            found = [m * near_uniform(m, BETA, MODE, COPIES)(slope, c / rate) for m in sizes]
        limit = richardson([row[(len(row) * TAU).astype(int) - 1] for row in found])
        of = "matrices" if quick else "derivatives of runs"
        text = f"λ = {slope:g}, a t = {c:g}: relative error of {of} with 16 to 128 positions, extrapolated to infinitely many"
        checks.append(at_most(text, 1e-6, np.abs(limit / exact - 1).max()))
    checks += [
        close("G at τ = 0.5, a t = 0.9, λ = 0", 1.2114778, theory.position_response(0.5, 0.9), atol=1e-7),
        close("G at τ = 0.5, a t = 0.9, λ = 1", 1.3016270, theory.position_response(0.5, 0.9, slope=1.0), atol=1e-7),
    ]
    return Evidence(tuple(checks), draw(rows, n), CAPTION)


CAPTION = (
    "Response of the last position to a perturbation of each position, per unit of position: theory for infinitely many "
    "positions (lines), and derivatives of runs with n positions, which converge to it like 1/n (dots). Causal SA on the circle, "
    "β = 1, mode 1. With ALiBi of slope 2 it is U-shaped: the first and the last positions matter, the middle is lost."
)


def draw(rows, n):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.3), layout="constrained")
    tau, at = np.linspace(0.004, 0.999, 500), np.arange(1, n) / n
    for ax, slope in zip(figure.subplots(1, 2, sharey=True), SLOPES, strict=True):
        for c, color in zip(GROWTHS, COLORS, strict=True):
            ax.plot(tau, theory.position_response(tau, c, slope=slope), color=color, lw=1.2, label=f"a t = {c:g}")
            ax.plot(at, n * rows[slope, c][:-1], "o", ms=2.8, color=color)
        ax.set(xlabel="position τ", title=f"λ = {slope:g}", ylim=(0, 7), xlim=(-0.02, 1.02))
    figure.axes[0].set_ylabel("response G")
    figure.axes[0].plot([], [], "o", ms=2.8, color="0.5", label=f"runs, {n} positions")
    figure.axes[0].legend(frameon=False)
    return figure


CLAIM = Claim(
    id="position_response",
    section="Causal attention",
    title="The last token responds to the first positions, and with ALiBi to the last ones",
    statement="Near the uniform measure on the circle, under causal attention with weights p_s(τ) of positions (1/s, or ALiBi's), "
    "a perturbation of mode k at position τ moves the last position by G = p_1(τ) √(c/Y) I_1(2√(cY)), c = a t with the growth "
    "rate a of the mode, Y = log((e^λ - 1)/(e^{λτ} - 1)). G diverges at the first positions. For λ = 0 it falls toward the "
    "last ones; for λ > 0 it rises again there, so its graph is a U.",
    source="derived here; growth rates of Bruno, Pasqualotto, Agazzi 2024",
    measure=measure,
)
