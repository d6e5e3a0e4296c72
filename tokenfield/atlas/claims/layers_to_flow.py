"""Discrete layers: they tend to the flow at first order, and contract more slowly than it."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, close

N, D, T1 = 16, 3, 2.0
BLUE, ORANGE = "#0072B2", "#D55E00"
STEPS = (0.2, 0.1, 0.05, 0.025)


def model(beta: float) -> tkf.Transformer:
    return tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())


def errors(beta: float, seed: int) -> np.ndarray:
    """Largest distance between the layers with step h and the flow, at time T1, for each h."""
    start = tkf.uniform_sphere(N, D, seed=seed)
    exact = tkf.simulate(model(beta), start, T1, rtol=1e-11, atol=1e-13, progress=False).final.x
    ends = [tkf.layers(model(beta), start, depth=round(T1 / h), step=h).final.x for h in STEPS]
    return np.array([np.linalg.norm(end - exact, axis=1).max() for end in ends])


def contraction(h: float, beta: float, projected: bool) -> float:
    """Rate at which 1 - cosine of a nearly collapsed cloud decays, in 8 steps of size h."""
    rng = np.random.default_rng(0)
    x = np.eye(D)[0] + 1e-4 * rng.standard_normal((N, D))
    start = tkf.Tokens(x / np.linalg.norm(x, axis=1, keepdims=True))
    if projected:  # Euler's step along the projected field, and back to the sphere
        run = tkf.simulate(model(beta), start, 8 * h, method="euler", dt=h, save_at=2, progress=False)
    else:
        run = tkf.layers(model(beta), start, depth=8, step=h)
    width = [float(np.linalg.norm(state.x - state.x.mean(axis=0))) for state in (run.state(0), run.final)]
    return 2 * np.log(width[0] / width[1]) / (8 * h)


def measure(quick: bool) -> Evidence:
    betas = (1.0, 4.0) if quick else (0.0, 1.0, 4.0, 9.0)
    checks, curves, rates = [], {}, {}
    for beta in betas:
        sizes = np.mean([errors(beta, seed) for seed in range(1 if quick else 5)], axis=0)
        order = np.polyfit(np.log(STEPS[1:]), np.log(sizes[1:]), 1)[0]
        curves[beta] = sizes
        checks.append(close(f"β = {beta:g}: order in h of the distance from the flow at t = 2", 1.0, order, atol=0.1))
    for h in (1.0, 0.5, 0.1):
        rates["layers", h] = contraction(h, 4.0, projected=False)
        expected = 2 * np.log1p(h) / h
        checks.append(
            close(f"h = {h:g}: contraction rate of the layer N(x + h Att)", expected, rates["layers", h], rtol=1e-6)
        )
    for h in (0.5, 0.25, 0.1):
        rates["euler", h] = contraction(h, 4.0, projected=True)
        expected = -2 * np.log1p(-h) / h
        checks.append(close(f"h = {h:g}: contraction rate of N(x + h P Att)", expected, rates["euler", h], rtol=1e-6))
    return Evidence(tuple(checks), draw(curves, rates), CAPTION)


CAPTION = (
    "Left: distance between SA layers and the flow at t = 2, 16 tokens on the 2-sphere; lines of slope 1 through the last "
    "dot. Right: rate at which 1 - cosine decays near one cluster; formulas (lines), measured (dots), the flow's 2 (dotted)."
)


def draw(curves, rates):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = np.array(STEPS)
    for (beta, sizes), colour in zip(curves.items(), (BLUE, ORANGE, "#009E73", "#CC79A7"), strict=False):
        left.loglog(steps, sizes[-1] * steps / steps[-1], color=colour, lw=1)
        left.loglog(steps, sizes, "o", ms=4.5, color=colour, label=f"β = {beta:g}")
    left.set(xlabel="step h", ylabel="largest distance from the flow")
    left.legend(frameon=False)
    h = np.linspace(0.01, 1, 100)
    right.axhline(2, color="0.4", ls=":", lw=1)
    for kind, line, colour, label in (
        ("euler", -2 * np.log1p(-h[h < 0.7]) / h[h < 0.7], ORANGE, "N(x + h P Att)"),
        ("layers", 2 * np.log1p(h) / h, BLUE, "N(x + h Att)"),
    ):
        right.plot(h[: len(line)], line, color=colour, label=label)
        right.plot(
            *zip(*[(key[1], rate) for key, rate in rates.items() if key[0] == kind], strict=True),
            "o",
            ms=4.5,
            color=colour,
        )
    right.set(xlabel="step h", ylabel="contraction rate")
    right.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="layers_to_flow",
    section="Layers and flow",
    title="Layers tend to the flow, and contract more slowly",
    statement="As h → 0 the layers x ← N(x + h Att(x)) tend to the SA flow with an error of order h at a fixed time. Near one "
    "cluster 1 - cosine decays at the rate 2 log(1+h)/h, below the flow's 2 (1.386 for a whole layer, h = 1); projected "
    "Euler, x ← N(x + h P Att), errs to the other side, -2 log(1-h)/h.",
    source="Rigollet, The mean-field dynamics of Transformers, §3.1; the rates are derived here",
    measure=measure,
)
