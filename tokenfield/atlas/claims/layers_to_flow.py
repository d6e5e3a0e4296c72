"""Discrete layers converge to the flow at first order, and contract more slowly than the flow."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, close

N, D, T1 = 16, 3, 2.0
COLORS, STEPS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), np.array([0.1, 0.05, 0.025, 0.0125])
RATES = {"N(x + h Att)": lambda h: 2 * np.log1p(h) / h, "N(x + h P Att)": lambda h: -2 * np.log1p(-h) / h}


def model(beta: float) -> tkf.Transformer:
    return tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())


def errors(beta: float, seed: int) -> np.ndarray:
    """Return the largest distance between layers with step h and the flow at time T1, for each h."""
    start = tkf.uniform_sphere(N, D, seed=seed)
    exact = tkf.simulate(model(beta), start, T1, rtol=1e-11, atol=1e-13, progress=False).final.x
    ends = [tkf.layers(model(beta), start, depth=round(T1 / h), step=h).final.x for h in STEPS]
    return np.array([np.linalg.norm(end - exact, axis=1).max() for end in ends])


def contraction(kind: str, h: float) -> float:
    """Return the rate at which 1 - cosine decays in a nearly collapsed cloud, over 8 steps of size h."""
    x = np.eye(D)[0] + 1e-4 * np.random.default_rng(0).standard_normal((N, D))
    start = tkf.Tokens(x).normalized()
    if kind == "N(x + h Att)":
        run = tkf.layers(model(4.0), start, depth=8, step=h)
    else:  # Euler step along the projected field, then back to the sphere
        run = tkf.simulate(model(4.0), start, 8 * h, method="euler", dt=h, save_at=2, progress=False)
    x = run.dataset["x"].values[[0, -1]]
    width = np.linalg.norm(x - x.mean(axis=1, keepdims=True), axis=(1, 2))
    return 2 * np.log(width[0] / width[1]) / (8 * h)


def measure(quick: bool) -> Evidence:
    checks, curves, rates = [], {}, {}
    for beta in (1.0, 4.0) if quick else (0.0, 1.0, 4.0, 9.0):
        curves[beta] = np.mean([errors(beta, seed) for seed in range(1 if quick else 5)], axis=0)
        order = np.log2(curves[beta][-2] / curves[beta][-1])  # from the two smallest steps
        checks.append(close(f"β = {beta:g}: order in h of the distance from the flow at t = 2", 1.0, order, atol=0.05))
    for kind, rate in RATES.items():
        for h in (1.0, 0.5, 0.1) if kind == "N(x + h Att)" else (0.5, 0.25, 0.1):
            rates[kind, h] = contraction(kind, h)
            checks.append(close(f"x ← {kind}, h = {h:g}: contraction rate", rate(h), rates[kind, h], rtol=1e-6))
    return Evidence(tuple(checks), draw(curves, rates), CAPTION)


CAPTION = (
    "Left: distance between SA layers and the flow at t = 2, 16 tokens on the 2-sphere; lines of slope 1 through the last "
    "dot. Right: rate at which 1 - cosine decays near one cluster; formulas (lines), measured (dots), the flow's 2 (dotted)."
)


def draw(curves, rates):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (beta, sizes), color in zip(curves.items(), COLORS, strict=False):
        left.loglog(STEPS, sizes[-1] * STEPS / STEPS[-1], color=color, lw=1)
        left.loglog(STEPS, sizes, "o", ms=4.5, color=color, label=f"β = {beta:g}")
    left.set(xlabel="step h", ylabel="largest distance from the flow", ylim=(0.004, 0.1))
    left.set_xticks(STEPS, [f"{h:g}" for h in STEPS])
    left.set_xticks([], minor=True)
    right.axhline(2, color="0.4", ls=":", lw=1)
    for (kind, rate), color, end in zip(RATES.items(), COLORS, (1.0, 0.7), strict=False):
        h = np.linspace(0.01, end, 100)
        right.plot(h, rate(h), color=color, label=kind)
        right.plot(*zip(*[(h, r) for (k, h), r in rates.items() if k == kind], strict=True), "o", ms=4.5, color=color)
    left.legend(frameon=False)
    right.set(xlabel="step h", ylabel="contraction rate")
    right.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="layers_to_flow",
    section="Layers and flow",
    title="Layers converge to the flow, and contract more slowly",
    statement="As h → 0 the layers x ← N(x + h Att(x)) converge to the SA flow with an error of order h at a fixed time. Near one "
    "cluster 1 - cosine decays at the rate 2 log(1+h)/h, below the flow's rate 2 (1.386 for a whole layer, h = 1). For projected "
    "Euler, x ← N(x + h P Att), the rate is above 2: -2 log(1-h)/h.",
    source="Rigollet, The mean-field dynamics of Transformers, §3.1; the rates are derived here",
    measure=measure,
)
