"""Noise on the sphere: how fast the correlation with the initial position decays."""

import numpy as np

import tokenfield as tkf

from ..claim import Check, Claim, Evidence, at_most

KAPPA, T1, BLUE, ORANGE = 2.0, 2.0, "#0072B2", "#D55E00"


def decay(d: int, quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return times, `<X(t), X(0)>` averaged over tokens and runs, its standard error, and the largest ||X| - 1|."""
    model = tkf.Transformer(tkf.Linear(beta=1.0, V=0.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(KAPPA))
    start = tkf.uniform_sphere(32, d, seed=0)
    seeds = range(100 if quick else 2000)
    runs = tkf.simulate_many(model, start, T1, seeds=seeds, save_at=11, dt=0.05, progress=False)
    x = runs.dataset["x"].values
    products = (x * x[:, :1]).sum(-1).transpose(1, 0, 2).reshape(11, -1)
    return (
        runs.times,
        products.mean(1),
        products.std(1) / np.sqrt(products.shape[1]),
        np.abs(np.linalg.norm(x, axis=-1) - 1).max(),
    )


def measure(quick: bool) -> Evidence:
    checks: list[Check] = []
    curves, off = {}, []
    for d in (3,) if quick else (2, 3, 4, 8):
        times, products, error, away = decay(d, quick)
        curves[d] = times, products, error
        off.append(away)
        exact = np.exp(-(d - 1) * times / KAPPA)
        sigmas = np.abs(products - exact)[1:] / error[1:]
        checks.append(at_most(f"d = {d}: largest distance from e^(-(d-1)t/κ), in standard errors", 4.0, sigmas.max()))
        half = np.abs(products - np.exp(-(d - 1) * times / (2 * KAPPA)))[1:] / error[1:]
        text = f"d = {d}: with noise √(1/κ) dW instead, in standard errors"
        checks.append(Check(text, "> 10", f"{half.max():.3g}", "none", bool(half.max() > 10)))
    checks.append(at_most("largest distance of a token from the sphere", 1e-15, max(off)))
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = "Mean cosine of a token and its start under noise alone, κ = 2: simulated (dots, two standard errors), exact (lines)."


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    ax = figure.subplots()
    for (d, (times, products, error)), color in zip(curves.items(), (BLUE, ORANGE, "#009E73", "#CC79A7"), strict=False):
        ax.errorbar(times, products, 2 * error, fmt="o", ms=3, color=color, label=f"d = {d}")
        fine = np.linspace(0, T1, 200)
        ax.plot(fine, np.exp(-(d - 1) * fine / KAPPA), color=color, lw=0.9)
    ax.set(xlabel="time t", ylabel="mean of ⟨X(t), X(0)⟩")
    ax.legend()
    return figure


CLAIM = Claim(
    id="sphere_brownian",
    section="Noise",
    title="Under noise alone the correlation with the start decays at rate (d-1)/κ",
    statement="With noise √(2/κ) dW on the sphere and no drift, E⟨X(t), X(0)⟩ = e^{-(d-1)t/κ}: in R^d the Itô equation has "
    "the drift -((d-1)/κ) X, and the law solves the heat equation with (1/κ)Δ.",
    source="Rigollet, The mean-field dynamics of Transformers, (9), with the signs of the Fokker–Planck equation corrected",
    measure=measure,
)
