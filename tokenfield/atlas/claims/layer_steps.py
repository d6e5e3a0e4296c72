"""Layers with large steps are not the flow: overshoot, period two, collapse of repelled tokens, and a Gaussian that turns over."""

import numpy as np

import tokenfield as tkf

from ...theory import critical_steps, period_two
from ..claim import Claim, Evidence, close, equal

N, D = 3, 6


def ends(h: np.ndarray, beta: np.ndarray, layers: int) -> np.ndarray:
    """The ratio w of the two parts of three tokens at equal angles, after so many layers of a plain loop over the formula."""
    w = np.full(np.broadcast(h, beta).shape, 1.0)
    for _ in range(layers):
        other = np.exp(-beta * N / ((N - 1) * (1 + w * w)))
        w = w * (1 - h) / (1 - h * (1 - other) / (1 + (N - 1) * other))
        w = np.clip(np.abs(w), 0, 1e6)
    return w


def run(h: float, beta: float, depth: int) -> list[np.ndarray]:
    """Return the last three states of tokens from a random start."""
    model = tkf.Transformer(tkf.Softmax(beta, V=-1.0), norm=tkf.PostLN())
    traj = tkf.layers(model, tkf.uniform_sphere(N, D, seed=2), depth, h)
    return [np.asarray(traj.state(k).x) for k in (depth - 2, depth - 1, depth)]


def cosines(x: np.ndarray) -> np.ndarray:
    return (x @ x.T)[np.triu_indices(N, 1)]


def measure(quick: bool) -> Evidence:
    checks, depth, betas = [], 1000 if quick else 4000, (1.0, 2.0) if quick else (0.5, 1.0, 2.0, 4.0)
    for beta in betas:
        steps = critical_steps(beta, N)
        for h in (0.5, 0.97 * min(steps.unequal, steps.period_two)):
            found = cosines(run(h, beta, depth)[-1])
            checks.append(close(f"β = {beta:g}, h = {h:.3f}: cosines of the simplex", -0.5, found.max(), atol=1e-6))
        h = 0.2 * steps.period_two + 0.8 * steps.collapse
        before, between, after = run(h, beta, depth)
        rest = np.abs(after - before).max()
        checks.append(
            close(
                f"β = {beta:g}, h = {h:.3f}: cosine of period two",
                period_two(h, beta, N).cosine,
                cosines(after).mean(),
                atol=1e-9,
            )
        )
        checks.append(close(f"β = {beta:g}, h = {h:.3f}: change in two layers", 0.0, rest, atol=1e-9))
        checks.append(
            equal(f"β = {beta:g}, h = {h:.3f}: tokens move in each layer", True, np.abs(after - between).max() > 0.1)
        )
        before, between, after = run(2.2, beta, depth)
        checks.append(close(f"β = {beta:g}, h = 2.2: cosines in one point", 1.0, cosines(after).min(), atol=1e-9))
        checks.append(
            close(f"β = {beta:g}, h = 2.2: the point changes its sign", 0.0, np.abs(after + between).max(), atol=1e-9)
        )
    k, variance = 0.8, 1.5  # sigma <- sigma |1 - h k sigma^2|
    model, start = tkf.Transformer(tkf.Softmax(A=[[k]], V=-1.0)), tkf.Gaussian([0.0], [[variance]])
    for factor, blows_up in ((0.98, False), (1.02, True)):
        events = tkf.layers(model, start, 200, factor * 2 / (k * variance)).events
        checks.append(equal(f"Gaussian, step {factor:g} × 2/(kσ²): blows up", blows_up, bool(events)))
    return Evidence(tuple(checks), draw(120 if quick else 240), CAPTION)


CAPTION = (
    "Three repelled tokens (SA, V = −I, Post-LN) that start at equal angles, after 2000 layers with step h. Color: their cosine, "
    "from −1/2, the simplex to which the flow leads, to 1. Solid: h = 2/(1+δ) and h = 2. Within the dotted line the state of "
    "period two is unstable, and the layers wander. Right of the dashed line tokens at unequal angles leave the simplex."
)


def draw(size: int):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 3.8), layout="constrained")
    ax = figure.subplots()
    beta, h = np.geomspace(0.25, 8, size), np.linspace(0.4, 2.4, size)
    w = ends(h[None, :], beta[:, None], 2000)
    cosine = 1 - N / ((N - 1) * (1 + w * w))
    mesh = ax.pcolormesh(h, beta, cosine, cmap="viridis", vmin=-0.5, vmax=1, rasterized=True)
    figure.colorbar(mesh, label="cosine of two tokens", ticks=[-0.5, 0, 0.5, 1])
    steps = [critical_steps(each, N) for each in beta]
    first = [step.unequal if step.unequal < step.period_two else np.nan for step in steps]
    ax.plot([step.period_two for step in steps], beta, color="white")
    ax.plot(first, beta, color="white", ls="--", lw=1)
    ax.axvline(2.0, color="white", lw=1)
    for edge in unstable(beta):
        ax.plot(edge, beta, color="white", ls=":", lw=1.2)
    ax.set(xlabel="step h of a layer", ylabel="β", yscale="log", xlim=(h[0], h[-1]), ylim=(beta[0], beta[-1]))
    ax.set_yticks([0.25, 0.5, 1, 2, 4, 8], labels=["0.25", "0.5", "1", "2", "4", "8"])
    ax.minorticks_off()
    return figure


def unstable(beta: np.ndarray) -> np.ndarray:
    """Return the first and last step at which period two has a multiplier above 1, for each beta; NaN where it has none."""
    edges = np.full((2, len(beta)), np.nan)
    for index, each in enumerate(beta):
        steps = np.linspace(critical_steps(each, N).period_two, 2, 402)[1:-1]
        lost = steps[[period_two(step, each, N).multiplier > 1 for step in steps]]
        if lost.size:
            edges[:, index] = lost[[0, -1]]
    return edges


CLAIM = Claim(
    id="layer_steps",
    section="Layers and flow",
    title="What changes from continuous to discrete time",
    statement="Layers with V = −I and Post-LN spread n tokens to a simplex, as the flow does, if the step h is small. δ is the "
    "softmax weight on the token itself minus that on another, c the latter. The simplex is stable up to h = 2/(1+δ) for equal "
    "angles, and up to h = 2/(2δ+ck) for others, k = m(n−2+mβ) or 2mβ, m = n/(n−1). Between 2/(1+δ) and 2 there is a state of "
    "period two with cosine 1 − log((1+(n−1)s)/(1−s))/β, s = 2/h − 1. Above h = 2 repelled tokens meet in one point, which "
    "changes its sign in each layer. A Gaussian that the flow contracts, VA = −k, blows up if h > 2/(kσ²).",
    source="a question of the talks (what changes from discrete to continuous time?); derived here",
    measure=measure,
)
