"""Noisy tokens on the sphere: where order sets in, and whether continuously or by a jump."""

import numpy as np
from scipy.special import i0, i1, iv

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close, equal

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def direct(beta: float, kappa: float, mass: float = 8.0, steps: int = 6000) -> float:
    """Return m_1 of the limit on the circle of `mu ← exp(kappa W*mu)`, on a grid of angles, from a concentrated start."""
    theta = np.arange(256) * np.pi / 128
    kernel = np.exp(beta * np.cos(theta[:, None] - theta)) / 256
    p = np.exp(mass * np.cos(theta))
    p /= p.mean()
    for _ in range(steps):
        before, p = p, np.exp(kappa / beta * (kernel @ p))
        p /= p.mean()
        if np.abs(p - before).max() < 1e-13:
            break
    return float((p * np.cos(theta)).mean())


def measure(quick: bool) -> Evidence:
    theory, checks = tkf.theory, []
    beta = 1.0
    for d in (2, 3, 4, 8):
        kappa_c = theory.critical_kappa(beta, d)
        order = d / 2
        bessel = beta / (np.exp(tkf.theory.log_multiplier(0, beta, d)) * iv(order, beta) / iv(order - 1, beta))
        checks.append(close(f"d = {d}, β = 1: κ_c from Bessel functions", bessel, kappa_c, rtol=1e-12))
        counts = [len(theory.stationary_states(beta, kappa_c * f, d)) for f in (1 - 1e-3, 1 + 1e-3)]
        checks.append(equal(f"d = {d}, β = 1: number of stationary laws just below and above κ_c", [1, 2], counts))
    star = theory.beta_star(2)
    sides = [theory.fold(star + e, 2) < theory.critical_kappa(star + e, 2) for e in (-0.02, 0.02)]
    checks.append(equal("d = 2: a fold below κ_c, for β just below and above β_*", [False, True], sides))
    fold, jump, kappa_c = theory.fold(4.0, 2), theory.first_order_point(4.0, 2), theory.critical_kappa(4.0, 2)
    checks.append(close("d = 2, β = 4: fold", 0.387069, fold, atol=5e-7))
    checks.append(close("d = 2, β = 4: κ of equal free energies", 0.391475, jump, atol=5e-7))
    checks.append(
        at_most("d = 2, β = 4: order 1e-3 below the fold, on a grid of angles", 1e-6, direct(4.0, fold - 1e-3))
    )
    for kappa in (jump, kappa_c * 1.01):
        high = max(state.m_1 for state in theory.stationary_states(4.0, kappa, 2))
        checks.append(
            close(f"d = 2, β = 4, κ = {kappa:.4f}: order, on a grid of angles", high, direct(4.0, kappa), rtol=1e-7)
        )
    for kappa in (2.2, 3.0, 5.0):
        r = theory.stationary_states(0.0, kappa, 2)[1].m_1
        checks.append(
            close(
                f"noisy Kuramoto, κ = {kappa:g}: r against I_1(κr)/I_0(κr)",
                i1(kappa * r) / i0(kappa * r),
                r,
                rtol=1e-10,
            )
        )
    for d in (2, 3) if quick else (2, 3, 4, 8):
        curve = theory.branch(4.0, d, "softmax")
        checks.append(
            equal(
                f"softmax, d = {d}, β = 4: stable on the whole branch, no fold",
                True,
                bool((curve.stable[1:] == 1).all()),
            )
        )
    curves = {b: theory.branch(b, 2, kappa_max=1.15 * theory.critical_kappa(b, 2)) for b in (1.0, star, 4.0, 6.0)}
    return Evidence(tuple(checks), draw(curves, jump / kappa_c), CAPTION)


CAPTION = (
    "Order parameter of one-peak laws on the circle against κ/κ_c: stable (solid) and unstable (dashed). Up to β_* the order "
    "parameter grows continuously from 0; above β_* it jumps. The dot marks equal free energies at β = 4."
)


def draw(curves, jump):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    for (beta, curve), color in zip(curves.items(), ("black", BLUE, ORANGE, GREEN), strict=True):
        ratio, after = curve.kappa / curve.kappa[0], int(np.argmin(curve.kappa))
        ax.plot(ratio[after:], curve.m_1[after:], color=color, label=f"β = {beta:.4g}")
        ax.plot(ratio[: after + 1], curve.m_1[: after + 1], color=color, ls="--")
        if beta == 4.0:
            ax.plot(jump, np.interp(jump, ratio[after:], curve.m_1[after:]), "o", color=color)
    ax.axvline(1, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel="κ/κ_c", ylabel="order parameter m_1", ylim=(0, 1))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="noisy_transition",
    section="Noise",
    title="With noise, order sets in at κ_c: continuously up to β_*, by a jump above",
    statement="Tokens with noise √(2/κ) dW on the sphere under unnormalized attention are uniform up to κ_c = β/w_1. For "
    "β ≤ β_*, I_{d/2+1}(β_*)/I_{d/2}(β_*) = 1/d, the one-peak law bifurcates from the uniform one; above β_*, it appears at a fold "
    "below κ_c, and from some κ between the fold and κ_c on it has the lower free energy. β = 0 on the circle is the noisy "
    "Kuramoto model, r = I_1(κr)/I_0(κr). Under softmax attention the transition is always continuous.",
    source="Rigollet, The mean-field dynamics of Transformers, §7; Carrillo, Gvalani, Pavliotis, Schlichting 2020; "
    "Bertini, Giacomin, Pakdaman 2010; Balasubramanian, Banerjee, Rigollet 2025",
    measure=measure,
)
