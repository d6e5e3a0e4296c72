"""Causal attention: the first token never moves, and all others converge to it."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

N, D, T1 = 8, 3, 160.0
COLORS = {1: "#0072B2", 3: "#009E73", 7: "#D55E00"}


def run(beta: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times and tokens (times, n, d) of the causal SA flow."""
    model = tkf.Transformer(tkf.Softmax(beta=beta, causal=True), norm=tkf.PostLN())
    trajectory = tkf.simulate(model, tkf.Tokens(x), T1, save_at=201, rtol=1e-11, atol=1e-13, progress=False)
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
            late = (distance[:, 1] > 1e-7) & (distance[:, 1] < 1e-3)
            slopes.append(np.polyfit(times[late], np.log(distance[late, 1]), 1)[0])
            curves.setdefault(beta, (times, distance))
        other = np.asarray(tkf.uniform_sphere(N, D, seed=10_000).x)
        _, changed = run(beta, np.concatenate([start[: N // 2], other[N // 2 :]]))
        blind.append(np.abs(changed[:, : N // 2] - x[:, : N // 2]).max())
    worst = max(slopes, key=lambda slope: abs(slope + 0.5))
    checks = (
        at_most(f"largest displacement of the first token in {len(slopes)} runs", 1e-12, max(moved)),
        at_most(f"largest distance of a token from x_1(0) at t = {T1:g}", 1e-6, max(far)),
        close("terminal rate of the second token, worst of all runs", -0.5, worst, rtol=1e-3),
        at_most("change of tokens 1 to 4 when tokens 5 to 8 are replaced", 1e-8, max(blind)),
    )
    return Evidence(checks, draw(*curves[1.0]), CAPTION)


CAPTION = (
    "Distances of three of 8 tokens from the first, causal SA on the 2-sphere, β = 1, one random start (dots). Line: the "
    "decay e^{-t/2} of the linearized flow, through the second token's distance at t = 20."
)


def draw(times, distance):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    anchor = int(np.argmin(np.abs(times - 20)))
    ax.semilogy(times, distance[anchor, 1] * np.exp((times[anchor] - times) / 2), color="0.3", lw=1, label="$e^{-t/2}$")
    for token, color in COLORS.items():
        ax.semilogy(times, distance[:, token], "o", ms=3.5, color=color, label=f"token {token + 1}")
    ax.set(xlabel="time t", ylabel="distance from the first token", xlim=(0, 35), ylim=(1e-7, 4))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="causal_first_token",
    section="Causal attention",
    title="Under a causal mask all tokens converge to the first",
    statement="With causal softmax attention on the sphere and V = I, the first token never moves, and from almost every start "
    "all tokens converge to x_1(0). No token depends on later ones. In the linearized flow token k relaxes at its own rate "
    "1 - 1/k. The second token is the slowest and sets the rate of all: distances decay like e^{-t/2}, and without the mask "
    "like e^{-t}.",
    source="Karagodin, Polyanskiy, Rigollet 2024 (Clustering in causal attention masking); the rate 1/2 is derived here",
    measure=measure,
)
