"""How the last token depends on each position after a number of causal layers."""

import numpy as np

import tokenfield as tkf

from ... import lipschitz, theory
from ..claim import Claim, Evidence, at_most, close
from ..linearized import richardson

ALPHA, DEPTHS, SLOPE = 0.3, (3, 12, 24), 2.0
TAU = np.array([0.125, 0.25, 0.5, 0.75, 0.875])
COLORS = ("black", "#0072B2", "#D55E00")


def by_layers(n: int, depth: int, slope: float) -> np.ndarray:
    """Return the coefficient (n,) of each token in the last one after layers with beta = 0, divided by (1+h)^L."""
    h = ALPHA / (1 - ALPHA)
    model = tkf.Transformer(tkf.Softmax(beta=0.0, causal=True, positions=tkf.ALiBi(slope)))
    start = tkf.Tokens(np.eye(n), positions=np.arange(1, n + 1) / n)
    return np.asarray(tkf.layers(model, start, depth, h, progress=False).final.x[-1]) / (1 + h) ** depth


def at_one_cluster(n: int, depth: int, beta: float) -> np.ndarray:
    """Return the influence (n,) under Post-LN layers linearized at n equal tokens on the circle.

    The factor sqrt 2 is there because only one of the two directions is tangent.
    """
    model = tkf.Transformer(tkf.Softmax(beta=beta, causal=True), norm=tkf.PostLN())
    tokens = np.tile([0.6, 0.8], (n, 1))
    return np.sqrt(2) * lipschitz.influence(model, tokens, depth, ALPHA / (1 - ALPHA))


def measure(quick: bool) -> Evidence:
    n = 64 if quick else 256
    worst = lambda found, true: float(np.abs(found / true - 1).max())  # noqa: E731
    rows = {L: by_layers(n, L, 0.0) for L in DEPTHS}
    error = max(worst(row, theory.token_influence(n, L, ALPHA)) for L, row in rows.items())
    biased = worst(by_layers(n, 12, SLOPE), theory.token_influence(n, 12, ALPHA, slope=SLOPE))
    cluster = max(worst(at_one_cluster(n, 12, beta), theory.token_influence(n, 12, ALPHA)) for beta in (1.0, 9.0))
    sizes = (128, 256, 512, 1024, 2048)
    limits = []
    for L in DEPTHS:
        found = [m * theory.token_influence(m, L, ALPHA)[(m * TAU).astype(int) - 1] for m in sizes]
        limits.append(worst(richardson(found), theory.layer_influence(TAU, L, ALPHA)))
    checks = (
        at_most(f"layers with β = 0, {n} tokens: relative difference from powers of (1-α) I + α C", 1e-10, error),
        at_most(f"the same with ALiBi of slope {SLOPE:g}", 1e-10, biased),
        at_most("derivative of Post-LN layers at one cluster, β = 1 and 9: the same", 1e-10, cluster),
        at_most("128 to 2048 tokens extrapolated: relative difference from the closed form", 1e-6, max(limits)),
        close("closed form, L = 12, α = 0.3, τ = 0.4", 0.360296, theory.layer_influence(0.4, 12, 0.3), atol=1e-6),
    )
    return Evidence(checks, draw(rows, n), CAPTION)


CAPTION = (
    "Influence of each token on the last after L layers of (1-α) I + α C, α = 0.3, times the number of tokens: `layers` with "
    "β = 0 (dots), matrix powers for the same n (lines), closed form for n → ∞ (dashed). The last token's own share, "
    "(1-α)^L, is not drawn."
)


def draw(rows, n):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    tau, at = np.geomspace(0.3 / n, 0.999, 400), np.arange(1, n) / n
    for (L, row), color in zip(rows.items(), COLORS, strict=True):
        ax.loglog(tau, theory.layer_influence(tau, L, ALPHA), color=color, lw=1, ls="--")
        ax.loglog(at, n * theory.token_influence(n, L, ALPHA)[:-1], color=color, lw=1, label=f"L = {L}")
        ax.loglog(at, n * row[:-1], "o", ms=3, color=color)
    ax.set(xlabel="position τ", ylabel="influence · n", xlim=(0.6 / n, 1.1), ylim=(1e-3, 100))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="causal_layers",
    section="Causal attention",
    title="After many layers of causal averaging only the first tokens matter",
    statement="Let C be the causal averaging matrix. After L layers of (1-α) I + α C, the last of many tokens depends on itself "
    "with weight (1-α)^L and on position τ with density Σ_k L!/(k!(L-k)!) α^k (1-α)^{L-k} (log(1/τ))^{k-1}/(k-1)!. With more "
    "layers, the first tokens matter more and more. Layers with β = 0 have this form, and so do Post-LN layers linearized at one "
    "cluster, for every β.",
    source="derived here; compare Barbero et al. 2024 (Transformers need glasses!)",
    measure=measure,
)
