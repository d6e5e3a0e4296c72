"""The mean-field Kuramoto model: a closed form without noise, a branch of von Mises laws with noise."""

import numpy as np
from scipy.special import ive

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

R0, T1, T2, MODES, TOKENS = 0.3, 3.0, 60.0, 128, 256
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def exact(t: np.ndarray) -> np.ndarray:
    """Return `r(t) = r0 e^{t/2} / sqrt(1 - r0^2 + r0^2 e^t)`, the solution of `r' = r (1 - r^2)/2`."""
    return R0 * np.exp(t / 2) / np.sqrt(1 - R0**2 + R0**2 * np.exp(t))


def poisson_kernel(r: np.ndarray | float, modes: int) -> np.ndarray:
    """Return coefficients of `(1 - r^2)/(1 - 2 r cos a + r^2) = 1 + 2 sum_k r^k cos k a` in the basis of `CircleDensity`."""
    c = np.zeros((*np.shape(r), 2, modes + 1))
    c[..., 0, :] = np.sqrt(2) * np.asarray(r)[..., None] ** np.arange(modes + 1)
    c[..., 0, 0] = 1
    return c


def quantiles(r: float, n: int) -> np.ndarray:
    """Return the quantiles of a Poisson kernel at levels (i + 1/2)/n: `tan(a/2) = (1-r)/(1+r) tan(u/2)`, u evenly spaced."""
    u = (2 * np.arange(n) + 1) * np.pi / n - np.pi
    return 2 * np.arctan((1 - r) / (1 + r) * np.tan(u / 2))


def model(kappa: float | None = None) -> tkf.Transformer:
    noise = None if kappa is None else tkf.SphereNoise(kappa)
    return tkf.Transformer(tkf.Unnormalized(beta=0.0), norm=tkf.PostLN(), noise=noise)


def branch(kappa: float) -> float:
    """Return the largest root of `r = I_1(kappa r)/I_0(kappa r)`; it is 0 for kappa <= 2."""
    from scipy.optimize import brentq

    if kappa <= 2:
        return 0.0
    return brentq(lambda r: r - ive(1, kappa * r) / ive(0, kappa * r), 1e-3, 1.0, xtol=1e-14)


def measure(quick: bool) -> Evidence:
    start = tkf.CircleDensity(poisson_kernel(R0, MODES))
    options = {"save_at": 61, "rtol": 1e-11, "atol": 1e-12, "progress": False}
    run = tkf.simulate(model(), start, T1, **options)
    times, c = run.times, run.dataset["coefficients"].values
    r, c_order = exact(times), c[:, 0, 1] / np.sqrt(2)
    checks = [
        at_most("density: largest error of r(t)", 1e-9, np.abs(c_order - r).max()),
        at_most("density: largest distance of a coefficient from the Poisson kernel of that r", 1e-8,
                np.abs(c - poisson_kernel(r, c.shape[-1] - 1)).max()),
    ]  # fmt: skip
    tokens = tkf.simulate(model(), tkf.circle_tokens(quantiles(R0, TOKENS)), T1, **options)
    order = np.linalg.norm(tokens.dataset["x"].values.mean(axis=1), axis=1)
    checks.append(at_most(f"{TOKENS} tokens at quantiles: largest error of r(t)", 1e-9, np.abs(order - r).max()))
    curves = {}
    for kappa in (1.5, 3.0) if quick else (1.5, 3.0, 5.0):
        noisy = tkf.simulate(model(kappa), start, T2, **options | {"rtol": 1e-8})
        c = noisy.dataset["coefficients"].values[:, 0]
        limit, curve = branch(kappa), c[:, 1] / np.sqrt(2)
        curves[kappa] = noisy.times, curve, limit
        if limit == 0:
            rate = np.log(curve[50] / curve[30]) / (noisy.times[50] - noisy.times[30])
            checks.append(close(f"with noise, κ = {kappa:g}: rate of r, 1/2 - 1/κ", 0.5 - 1 / kappa, rate, rtol=1e-4))
            continue
        predicted = 0.72415872 if kappa == 3 else limit
        checks.append(close(f"with noise, κ = {kappa:g}: r at t = {T2:g}", predicted, curve[-1], atol=1e-8))
        mises = ive(np.arange(1, 9), kappa * limit) / ive(0, kappa * limit)
        away = np.abs(c[-1, 1:9] / np.sqrt(2) - mises).max()
        checks.append(
            at_most(f"the same: largest distance of modes 1 to 8 from exp(κ r cos θ), κ = {kappa:g}", 1e-8, away)
        )
    return Evidence(tuple(checks), draw(times, c_order, order, curves), CAPTION)


CAPTION = (
    "Order parameter of the mean-field Kuramoto model. Left, without noise from a Poisson kernel with r = 0.3: closed form "
    "(line), density (circles), 256 tokens at quantiles (crosses). Right, with noise √(2/κ) dW from the same start: density "
    "(lines) and the stable root of r = I_1(κr)/I_0(κr) (dashed)."
)


def draw(times, density, tokens, curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    fine = np.linspace(0, T1, 200)
    left.plot(fine, exact(fine), color="black", lw=1, label="closed form")
    left.plot(times[::10], density[::10], "o", ms=7, mfc="none", color=BLUE, label="density")
    left.plot(times[::10], tokens[::10], "x", ms=4, color=ORANGE, label="tokens")
    left.set(xlabel="time t", ylabel="order parameter r", title="without noise", ylim=(0, 1))
    left.legend(frameon=False)
    for (kappa, (t, r, limit)), color in zip(curves.items(), (GREEN, ORANGE, BLUE), strict=False):
        shown = t <= 30
        right.axhline(limit, color=color, ls="--", lw=0.9)
        right.plot(t[shown], r[shown], color=color, label=f"κ = {kappa:g}")
    right.set(xlabel="time t", title="with noise", xlim=(0, 30))
    right.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.45))
    return figure


CLAIM = Claim(
    id="kuramoto_density",
    section="Models",
    title="The mean-field Kuramoto model: closed form without noise, stationary branch with noise",
    statement="At β = 0 on the circle, Poisson kernels stay Poisson kernels under the mean-field flow, and their order "
    "parameter is r(t) = r_0 e^{t/2}/√(1 - r_0² + r_0² e^t). With noise √(2/κ) dW the law tends to exp(κ r cos θ), up to "
    "rotation, with r = I_1(κr)/I_0(κr): r = 0 up to κ = 2, approached at the rate 1/κ - 1/2, and the positive root above "
    "(κ = 3: 0.72415872).",
    source="Rigollet, The mean-field dynamics of Transformers, §3.3 and §7; Kuramoto 1975; Ott, Antonsen 2008; Bertini, "
    "Giacomin, Pakdaman 2010",
    measure=measure,
)
