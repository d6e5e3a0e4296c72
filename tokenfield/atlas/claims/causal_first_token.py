"""Causal attention: the first token stays, and all others come to it."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

N, D, T1 = 8, 3, 60.0
COLOURS = ("#0072B2", "#009E73", "#D55E00")


def run(beta: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and tokens of the causal SA flow."""
    model = tkf.Transformer(tkf.Softmax(beta=beta, causal=True), norm=tkf.PostLN())
    trajectory = tkf.simulate(model, tkf.Tokens(x), T1, rtol=1e-10, atol=1e-12, progress=False)
    return trajectory.times, trajectory.dataset["x"].values


def measure(quick: bool) -> Evidence:
    moved, far, blind, slopes, curves = [], [], [], [], {}
    for beta in (0.5, 1.0, 2.0):
        for seed in range(3 if quick else 30):
            start = np.asarray(tkf.uniform_sphere(N, D, seed=seed).x)
            times, x = run(beta, start)
            distance = np.linalg.norm(x - start[0], axis=-1)
            moved.append(distance[:, 0].max())
            far.append(distance[-1].max())
            width = distance.max(axis=1)
            late = (width > 1e-6) & (width < 1e-3)
            slopes.append(np.polyfit(times[late], np.log(width[late]), 1)[0])
            curves.setdefault(beta, (times, width))
        other = np.asarray(tkf.uniform_sphere(N, D, seed=10_000).x)
        _, changed = run(beta, np.concatenate([start[: N // 2], other[N // 2 :]]))
        blind.append(np.abs(changed[:, : N // 2] - x[:, : N // 2]).max())
    runs = len(slopes)
    worst = max(slopes, key=lambda slope: abs(slope + 0.5))
    checks = (
        at_most(f"largest displacement of the first token in {runs} runs", 1e-12, max(moved)),
        at_most(f"largest distance of a token from x_1(0) at t = {T1:g}", 1e-6, max(far)),
        close("terminal rate of the largest distance, the worst of all runs", -0.5, worst, rtol=0.01),
        at_most("change of tokens 1 to 4 when tokens 5 to 8 are replaced", 1e-8, max(blind)),
    )
    return Evidence(checks, draw(curves), CAPTION)


CAPTION = (
    "Largest distance of 8 tokens from the first one, under causal SA on the 2-sphere (dots), one random start. "
    "The line has the slope of the linearised flow, e^{-t/2}."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    for (beta, (times, width)), colour in zip(curves.items(), COLOURS, strict=True):
        anchor = np.flatnonzero(width > 1e-4)[-1]
        tail = times > times[anchor] - 8
        ax.plot(times[tail], width[anchor] * np.exp((times[anchor] - times[tail]) / 2), color=colour, lw=1)
        ax.plot(times, width, "o", ms=3, color=colour, label=f"β = {beta:g}")
    ax.set(xlabel="time t", ylabel="largest distance from $x_1$", yscale="log", xlim=(0, 40), ylim=(1e-7, 3))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="causal_first_token",
    section="Causal attention",
    title="Under a causal mask all tokens follow the first",
    statement="With causal softmax attention on the sphere and V = I, the first token never moves, and from almost every start "
    "all tokens converge to x_1(0). Near the end the k-th token pulls away from itself at rate 1 - 1/k, so the slowest is "
    "the second: distances decay like e^{-t/2}, half as fast as without the mask. Tokens do not feel later ones.",
    source="Karagodin, Polyanskiy, Rigollet 2024 (Clustering in causal attention masking); the rate 1/2 is derived here",
    measure=measure,
)
