"""One attention layer on many tokens at equal angles, with beta = gamma log n: three regimes."""

import math

import numpy as np

import tokenfield as tkf
from tokenfield.states.near_equal import nearly_equiangular
from tokenfield.theory.long_context import critical_gamma, layer_contraction
from tokenfield.theory.nearly_equiangular import nearly_equiangular_contraction

from ..claim import Claim, Evidence, at_least, at_most, close

RHO = 0.5
GAMMAS = {"below": 1.0, "critical": 2.0, "above": 3.0}
LIMITS = {"below": 1.0, "critical": 4 * RHO / (1 + 3 * RHO), "above": RHO}
COLORS = {"below": "#D55E00", "critical": "#009E73", "above": "#0072B2"}


def outputs(tokens: tkf.Tokens, beta: float) -> np.ndarray:
    """Return the output of one attention layer for every token."""
    import jax
    import jax.numpy as jnp

    attend = jax.jit(lambda attention, tokens: attention.of_itself(jnp.zeros(()), tokens, unit=True))
    return np.asarray(attend(tkf.Softmax(beta), tokens))


def cosine_after(n: int, beta: float) -> float:
    """Return the cosine between the outputs of n equiangular tokens, in R^n."""
    y = outputs(tkf.equiangular_tokens(RHO, n), beta)
    return float(y[0] @ y[-1] / (np.linalg.norm(y[0]) * np.linalg.norm(y[-1])))


def measure(quick: bool) -> Evidence:
    checks, points = [], {name: [] for name in GAMMAS}
    sizes = (16, 64, 256, 1024) if quick else (16, 64, 256, 1024, 4096)
    for name, gamma in GAMMAS.items():
        for n in sizes:
            points[name].append((n, cosine_after(n, gamma * math.log(n))))
        n, found = points[name][-1]
        exact = layer_contraction(RHO, n, gamma * math.log(n))
        checks.append(close(f"γ = {gamma:g}: cosine after one layer, all of {n} tokens", exact, found, atol=1e-10))
        far = layer_contraction(RHO, 1e12, gamma * math.log(1e12))
        checks.append(close(f"γ = {gamma:g}: limit as n grows (n = 1e12)", LIMITS[name], far, atol=2e-5))
    n = 1e8
    beta = critical_gamma(RHO) * math.log(n)
    weight = 1 / (1 + (n - 1) * math.exp(-beta * (1 - RHO)))
    checks.append(close("critical γ: weight of a token on itself", 0.5, weight, atol=1e-6))
    needed = (0.9 - weight) / (1 - weight) * (n - 1) / n
    checks.append(at_least("critical γ: fraction of tokens that carry 90 % of the attention", 0.5, needed))
    checks.append(
        at_most(
            "as printed, that number is sublinear in n: fraction, against n^(-1/4) at n = 1e8",
            n**-0.25,
            needed,
            printed=True,
        )
    )
    zero = layer_contraction(0.0, 1e12, 0.75 * math.log(1e12))
    checks.append(
        close("ρ = 0, γ = 0.75: orthogonal tokens stay orthogonal above γ = 1/2, not 1", 0.0, zero, atol=1e-4)
    )
    count, d = (2048, 40) if quick else (4096, 48)
    beta = 1.5 * math.log(count)
    y = outputs(nearly_equiangular(RHO, count, d, seed=0), beta)
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    found = ((y.sum(axis=0) ** 2).sum() - count) / (count * (count - 1))
    predicted = nearly_equiangular_contraction(RHO, count, d, beta)
    checks.append(
        close(f"nearly equal angles, n = {count}, d = {d}, γ = 1.5: mean cosine", predicted, found, atol=0.01)
    )
    return Evidence(tuple(checks), draw(points), CAPTION)


CAPTION = (
    "Left: cosine after one layer from ρ = 1/2 against n, with β = γ log n: formula (lines), all tokens (dots), limits "
    "(dashed). Right: increase of the cosine divided by the largest possible increase, n = 10⁶, and the line γ = 1/(1-ρ)."
)


def draw(points):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = np.geomspace(10, 1e7, 200)
    for name, gamma in GAMMAS.items():
        left.semilogx(n, layer_contraction(RHO, n, gamma * np.log(n)), color=COLORS[name], label=f"γ = {gamma:g}")
        left.plot(*zip(*points[name], strict=True), "o", ms=4, color=COLORS[name])
        left.axhline(LIMITS[name], color=COLORS[name], ls="--", lw=0.8)
    left.set(xlabel="number of tokens n", ylabel="cosine after one layer", ylim=(0.45, 1.03))
    left.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.58))
    gamma, rho = np.linspace(0, 5, 240), np.linspace(0, 0.99, 240)
    share = (layer_contraction(rho[:, None], 1e6, gamma * math.log(1e6)) - rho[:, None]) / (1 - rho[:, None])
    mesh = right.pcolormesh(gamma, rho, share, cmap="cividis", vmin=0, vmax=1, shading="gouraud", rasterized=True)
    for color, width in (("black", 3), ("white", 1.4)):
        right.plot(critical_gamma(rho[rho < 0.8]), rho[rho < 0.8], color=color, lw=width)
    right.set(xlabel="γ = β / log n", ylabel="cosine before, ρ", xlim=(0, 5))
    figure.colorbar(mesh, ax=right, label="increase / largest possible")
    return figure


CLAIM = Claim(
    id="long_context",
    section="Long context",
    title="A logarithmic attention scale has a phase transition at γ = 1/(1-ρ)",
    statement="One attention layer with β = γ log n acts on n tokens with equal cosines ρ in (0, 1). As n grows the cosine of the "
    "outputs tends to 1 for γ < 1/(1-ρ), to 4ρ/(1+3ρ) at equality and to ρ above. At equality half of a token's "
    "attention is on itself and half is spread evenly over all others. At ρ = 0 the threshold is 1/2.",
    source="Chen, Lin, Polyanskiy, Rigollet 2026; Rigollet, The mean-field dynamics of Transformers, §6.3, Theorem 7 (which "
    "speaks of a sublinear set of neighbors at the critical value)",
    measure=measure,
)
