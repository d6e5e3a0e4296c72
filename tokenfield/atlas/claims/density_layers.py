"""Discrete layers acting on a density: push-forward by one map, period-two waves, folds."""

import numpy as np

import tokenfield as tkf

from ...theory import density_steps, fold_step, growth_rates, layer_factors
from ..claim import Claim, Evidence, close, equal
from ..fits import power

COLORS = ("#0072B2", "#D55E00")
STEP = 0.3


def model(beta: float, V: float = 1.0) -> tkf.Transformer:
    return tkf.Transformer(tkf.Softmax(beta, V=V), norm=tkf.PostLN())


def law(a: np.ndarray) -> np.ndarray:
    return np.exp(0.6 * np.cos(a) + 0.3 * np.sin(2 * a))


def points(a: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(a), np.sin(a)], axis=1)


def naive(x: np.ndarray, beta: float, V: float, h: float, depth: int, mu: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return tokens x, which attend to the weighted tokens mu, after `depth` layers computed by plain sums."""
    y, w = mu
    for _ in range(depth):
        moved = []
        for z in (x, y):
            p = w * np.exp(beta * (z @ y.T))
            z = z + h * V * (p @ y) / p.sum(1, keepdims=True)
            moved.append(z / np.linalg.norm(z, axis=1, keepdims=True))
        x, y = moved
    return x


def agreement(beta: float, V: float) -> float:
    """Return the largest difference of the first 12 Fourier coefficients of the density and of naive tokens, after 3 layers."""
    a = 2 * np.pi * np.arange(600) / 600
    w = law(a) / law(a).sum()
    x = naive(points(a), beta, V, STEP, 3, (points(a), w))
    found = tkf.layers(model(beta, V), tkf.CircleDensity.from_function(law, 64), 3, STEP).final
    exact = np.array([w @ (x[:, 0] + 1j * x[:, 1]) ** k for k in range(1, 13)]) * np.sqrt(2)
    c = np.asarray(found.coefficients)[:, 1:13]
    return float(np.abs(c[0] + 1j * c[1] - exact).max())


def naive_fold(beta: float, V: float, mass: np.ndarray, y: np.ndarray) -> float:
    """Return the step at which neighbors on a fine grid of the circle first change their order, by bisection."""
    x = points(np.linspace(0, 2 * np.pi, 4001))
    low, high = 0.0, 4.0
    for _ in range(30):
        h = (low + high) / 2
        z = naive(x, beta, V, h, 1, (y, mass))
        orientation = (z[:-1, 0] * z[1:, 1] - z[:-1, 1] * z[1:, 0]).min()
        low, high = (h, high) if orientation > 0 else (low, h)
    return low


def measure(quick: bool) -> Evidence:
    checks, runs = [], {}
    for beta, V in (
        ((2.0, 1.0), (2.0, -1.0)) if quick else ((1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (2.0, -1.0), (4.0, -1.0))
    ):
        checks.append(
            close(f"β = {beta:g}, V = {V:g}: density minus tokens after 3 layers", 0.0, agreement(beta, V), atol=1e-10)
        )
    start, kind = tkf.CircleDensity.from_function(law, 64), model(2.0)
    exact = np.asarray(
        tkf.simulate(kind, start, 0.4, save_at=2, rtol=1e-10, atol=1e-12, progress=False).final.coefficients
    )
    depths = np.array([16.0, 32.0, 64.0, 128.0])
    errors = [
        np.abs(np.asarray(tkf.layers(kind, start, int(k), 0.4 / k).final.coefficients) - exact).max() for k in depths
    ]
    fit = power(depths, np.array(errors))
    what = f"power of the number of layers in the distance from the flow, {fit.interval}"
    checks.append(close(what, -1.0, fit.value, atol=max(fit.half, 0.01)))
    a = 2 * np.pi * np.arange(600) / 600
    for beta, V in ((2.0, 1.0), (2.0, -1.0)):
        density = tkf.CircleDensity.from_function(lambda a: np.exp(4 * np.cos(a)), 48)
        found = naive_fold(beta, V, np.exp(4 * np.cos(a)) / np.exp(4 * np.cos(a)).sum(), points(a))
        checks.append(
            close(
                f"β = {beta:g}, V = {V:g}: step at which the map of a layer folds",
                fold_step(model(beta, V), density),
                found,
                rtol=1e-3,
            )
        )
    for beta in (2.0, 4.0) if quick else (1.0, 2.0, 4.0, 8.0):
        steps = density_steps(beta, 2)
        k, h = steps.degree, 0.9 * steps.alternate
        wave = tkf.CircleDensity.from_function(lambda a, k=k: 1 + 1e-6 * np.cos(k * a), 24)
        after = tkf.layers(model(beta, -1.0), wave, 1, h).final
        factor = float(after.coefficients[0, k] / wave.coefficients[0, k])
        checks.append(
            close(
                f"β = {beta:g}, h = {h:.3f}: growth factor of degree {k}",
                layer_factors(beta, 2, h, -1.0)[k],
                factor,
                rtol=1e-4,
            )
        )
        for share in (0.97, 1.003):
            wave = tkf.CircleDensity.from_function(lambda a, k=k: 1 + 0.06 * np.cos(k * a), 64)
            states = tkf.layers(model(beta, -1.0), wave, 120, share * steps.alternate).states
            c = [float(state.coefficients[0, k]) for state in states[-3:]]
            alternates = bool(
                abs(c[0]) > 0.01 and abs(c[2] - c[0]) < 0.02 * abs(c[0]) and abs(c[1] + c[0]) < 0.02 * abs(c[0])
            )
            checks.append(equal(f"β = {beta:g}, {share:g} times the critical step: period two", share > 1, alternates))
            runs[beta, share] = states[-2:]
    return Evidence(tuple(checks), draw(runs), CAPTION)


CAPTION = (
    "Left: the largest factor by which a repulsive layer (SA, V = −I, Post-LN) multiplies a small wave in the uniform density on "
    "the circle. Left of the solid line waves decay; right of it they grow and change sign in each layer; at the dashed line a "
    "layer sends tokens to the opposite side. Dots: runs of 120 layers that converge to a fixed point (filled) or to period two "
    "(open). Right: two densities one layer apart, just beyond the solid line for β = 4."
)


def draw(runs):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    beta, h = np.geomspace(0.5, 12, 80), np.linspace(0.2, 2.0, 160)
    steps = [density_steps(each, 2) for each in beta]
    rates = np.array([growth_rates(each, 2, modes=range(1, 12)) for each in beta])
    pull = 1 / np.array([step.flip for step in steps])
    size = np.abs(1 - h[:, None] * rates[:, None] / (1 - h * pull[:, None])[..., None]).max(axis=2)
    mesh = left.pcolormesh(h, beta, np.log10(size), cmap="Reds", vmin=0, vmax=1, rasterized=True)
    figure.colorbar(mesh, ax=left, label="log10 of the largest factor", ticks=[0, 0.5, 1])
    left.plot([step.alternate for step in steps], beta, color="black")
    left.plot([step.flip for step in steps], beta, color="black", ls="--", lw=1)
    for b, share in runs:
        left.plot(
            share * density_steps(b, 2).alternate, b, "o", ms=5, color="black", mfc="white" if share > 1 else "black"
        )
    left.set(xlabel="step h of a layer", ylabel="β", yscale="log", xlim=(h[0], h[-1]), ylim=(beta[0], beta[-1]))
    left.set_yticks([0.5, 1, 2, 4, 8], labels=["0.5", "1", "2", "4", "8"])
    left.minorticks_off()
    a = np.linspace(0, 2 * np.pi, 400)
    for state, color, name in zip(runs[4.0, 1.003], COLORS, ("after 119 layers", "after 120"), strict=True):
        right.plot(a, state.density(points(a)), color=color, label=name)
    right.set(xlabel="angle", ylabel="density", xlim=(0, 2 * np.pi), ylim=(0.9, 1.2))
    right.set_xticks([0, np.pi, 2 * np.pi], labels=["0", "π", "2π"])
    right.legend(frameon=False, fontsize=8, loc="upper center")
    return figure


CLAIM = Claim(
    id="density_layers",
    section="Layers and flow",
    title="Layers acting on a density: period-two waves, and folds",
    statement="A layer moves all tokens by one map T(x) = N(x + hΓ(x)), and a density by its push-forward. With V = vI, small "
    "waves in the uniform density are multiplied by 1 + hvλ/(1+hvρ), where λ is the flow's growth rate for V = I and ρ = w₁/w₀. "
    "Repulsive layers (v = −1) converge to the uniform density, as the flow does, if h < 2/(λ+2ρ) for the largest λ; just above "
    "this step they converge to a density of period two. T folds at the least root h of 1 + h(⟨Γ,x⟩+⟨τ,DΓτ⟩) + h² det(Γ,DΓτ): "
    "there the density becomes infinite.",
    source="a question of the talks (what changes from discrete to continuous time?); derived here",
    measure=measure,
)
