"""Repulsive unnormalized attention at large beta is the porous medium equation, over whole runs."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close
from ..fits import power

BLUE, ORANGE = "#0072B2", "#D55E00"
END = 0.3  # time of the porous medium equation
HEIGHT, SIZE = 0.35, 0.4  # of the Barenblatt profile: value at the center, and scale factor from the line to angles


def model(beta: float) -> tuple[tkf.Transformer, float]:
    """Return USA with V = -I, and the run time that equals s = 1 in `∂_s p = ½ Δ(p²)`, `s = t w_0/beta`."""
    attention = tkf.Unnormalized(beta, V=-1.0)
    log_unit = np.log(beta) - tkf.theory.log_multiplier(0, beta, 2) + float(attention.log_unit)
    return tkf.Transformer(attention, norm=tkf.PostLN()), float(np.exp(log_unit))


def law(a: np.ndarray) -> np.ndarray:
    return np.exp(0.5 * np.cos(a) + 0.2 * np.sin(2 * a + 1))


def circle(a: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(a), np.sin(a)], axis=1)


def by_fourier(p: np.ndarray, s: float) -> np.ndarray:
    """Return the solution of the porous medium equation at time s from values p at evenly spaced angles (Fourier, SciPy)."""
    from scipy.integrate import solve_ivp

    k = np.arange(len(p) // 2 + 1)
    field = lambda _, p: np.fft.irfft(-(k**2) / 2 * np.fft.rfft(p * p) * (3 * k < len(p)), len(p))  # noqa: E731
    return solve_ivp(field, (0, s), p, method="LSODA", rtol=1e-10, atol=1e-12).y[:, -1]


def barenblatt(n: int, tau: float) -> tuple[np.ndarray, float]:
    """Return n quantiles of `u = tau^{-1/3} (C - x²/(6 tau^{2/3}))_+`, which solves `∂_tau u = ∂(u ∂u)`, and its mass."""
    edge = np.sqrt(6 * HEIGHT)
    xi = np.linspace(-edge, edge, 200_001)
    below = HEIGHT * (xi + edge) - (xi**3 + edge**3) / 18
    return np.interp((np.arange(n) + 0.5) / n, below / below[-1], xi) * tau ** (1 / 3), float(below[-1])


def spread(beta: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles at tau = 2 of n tokens that start on the profile at tau = 1, and the exact ones of the profile."""
    start, mass = barenblatt(n, 1.0)
    transformer, unit = model(beta)
    t1 = unit * mass * SIZE**3 / (2 * np.pi)
    run = tkf.simulate(
        transformer, tkf.circle_tokens(SIZE * start), t1, save_at=[t1], rtol=1e-8, atol=1e-10, progress=False
    )
    x = np.asarray(run.final.x)
    return np.sort(np.arctan2(x[:, 1], x[:, 0])), SIZE * barenblatt(n, 2.0)[0]


def measure(quick: bool) -> Evidence:
    betas = np.array([50.0, 100.0, 200.0, 400.0]) if quick else np.array([50.0, 100.0, 200.0, 400.0, 800.0, 1600.0])
    start, grid = tkf.CircleDensity.from_function(law, 40), np.arange(256) * (2 * np.pi / 256)
    limit = by_fourier(start.density(circle(grid)), END)
    smooth, shape = [], []
    for beta in betas:
        transformer, unit = model(beta)
        t1 = END * unit
        run = tkf.simulate(transformer, start, t1, save_at=[t1], rtol=1e-10, atol=1e-12, progress=False)
        smooth.append(float(np.sqrt(np.mean((run.final.density(circle(grid)) - limit) ** 2))))
        found, exact = spread(beta, 400 if quick else 1500)
        shape.append(float(np.abs(found - exact).mean()))
    change = float(np.sqrt(np.mean((start.density(circle(grid)) - limit) ** 2)))
    falls, spreads = power(betas, np.array(smooth)), power(betas, np.array(shape))
    checks = (
        at_most(
            f"smooth density at s = {END:g}, β = {betas[-1]:g}: distance from the PDE / change in that time",
            0.01,
            smooth[-1] / change,
        ),
        close(f"the same: power of β, {falls.interval}", -1.0, falls.value, atol=max(falls.half, 0.01)),
        at_most(f"tokens on a Barenblatt profile, β = {betas[-1]:g}: W₁ from the exact profile", 2e-3, shape[-1]),
        close(f"the same: power of β, {spreads.interval}", -1.0, spreads.value, atol=max(spreads.half, 0.02)),
    )
    return Evidence(checks, draw(betas, smooth, shape, 400 if quick else 1500), CAPTION)


CAPTION = (
    "USA with V = −I on the circle. Left: tokens start on a Barenblatt profile at τ = 1 (gray); histogram at τ = 2 for "
    "β = 400, and the exact profile (line). Right: distance from the porous medium equation against β, for a smooth density (root "
    "mean square) and for the tokens (W₁); dotted: 1/β."
)


def draw(betas, smooth, shape, n):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    mass, edge = barenblatt(2, 1.0)[1], np.sqrt(6 * HEIGHT)
    for tau, color in ((1.0, "0.7"), (2.0, "black")):
        x = np.linspace(-edge, edge, 201) * tau ** (1 / 3)
        u = tau ** (-1 / 3) * (HEIGHT - x**2 / (6 * tau ** (2 / 3)))
        left.plot(SIZE * x, u / (mass * SIZE), color=color, lw=1.5, label=f"profile, τ = {tau:g}")
    end = SIZE * edge * 2 ** (1 / 3)
    left.hist(
        spread(400.0, n)[0], bins=32, range=(-end, end), density=True, color=BLUE, alpha=0.5, label="tokens, τ = 2"
    )
    left.set(xlabel="angle", ylabel="density", ylim=(0, 1.75))
    left.legend(frameon=False, loc="upper left", fontsize=7)
    right.loglog(betas, smooth, "o-", color=ORANGE, lw=1, label="smooth density")
    right.loglog(betas, shape, "s-", color=BLUE, lw=1, label="Barenblatt, tokens")
    right.loglog(betas, 0.3 / betas, ":", color="0.3")
    right.set(xlabel="β", ylabel="distance from the limit")
    right.set_xticks(betas, labels=[f"{beta:g}" for beta in betas])
    right.minorticks_off()
    right.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="porous_medium",
    section="Models",
    title="Repulsive USA at large β is the porous medium equation",
    statement="USA with V = −I spreads tokens by ∂_s μ = ½ Δ(μ²), s = t (1/β)∫ e^{β<x,y>} dσ(y), up to an error of order 1/β, over "
    "whole runs: for smooth densities, and for tokens that start on the Barenblatt profile u = τ^{−1/3}(C − x²/(6τ^{2/3}))₊, "
    "whose edge moves at finite speed. With V = I the equation is the same with the opposite sign, and ill-posed.",
    source="Rigollet, The mean-field dynamics of Transformers, §3.2; Bruno, Pasqualotto, Agazzi 2025 (A multiscale analysis of "
    "mean-field transformers in the moderate interaction regime); profile of Barenblatt 1952",
    measure=measure,
)
