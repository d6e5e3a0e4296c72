"""On the circle USA is a Kuramoto model."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, equal

N, T1 = 12, 4.0
BLUE, ORANGE = "#0072B2", "#D55E00"


def kuramoto(beta: float, angles: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the solution of `theta_i' = -(1/n) sum_j e^{beta cos(theta_i - theta_j)} sin(theta_i - theta_j)`, by SciPy."""
    from scipy.integrate import solve_ivp

    def field(t, theta):
        gap = theta[:, None] - theta
        return -(np.exp(beta * np.cos(gap)) * np.sin(gap)).mean(axis=1)

    return solve_ivp(field, (0, times[-1]), angles, "DOP853", times, rtol=1e-12, atol=1e-13).y.T


def usa(beta: float, norm: bool = True) -> tkf.Transformer:
    return tkf.Transformer(tkf.Unnormalized(beta=beta), norm=tkf.PostLN() if norm else None)


def measure(quick: bool) -> Evidence:
    rng = np.random.default_rng(1)
    starts = rng.uniform(-np.pi, np.pi, (3 if quick else 30, N))
    checks, curves, drift = [], {}, []
    for beta in (0.0, 1.0, 3.0):
        errors = []
        for angles in starts:
            run = tkf.simulate(usa(beta), tkf.circle_tokens(angles), T1, rtol=1e-12, atol=1e-13, progress=False)
            x = run.dataset["x"].values
            theta = kuramoto(beta, angles, run.times)
            errors.append(np.abs(x - np.stack([np.cos(theta), np.sin(theta)], axis=-1)).max())
            drift.append(np.abs(np.linalg.norm(x, axis=-1) - 1).max())
            curves.setdefault(beta, (run.times, theta, x))
        checks.append(at_most(f"β = {beta:g}: largest distance between USA and the angle equation", 1e-9, max(errors)))
    ends = [tkf.simulate(usa(0.0), tkf.circle_tokens(a), 200.0, progress=False).final for a in starts]
    checks.append(
        equal("β = 0: random starts that synchronize", len(ends), sum(len(tkf.clusters(e).sizes) == 1 for e in ends))
    )
    checks.append(at_most("USA, with its projection: largest distance from the circle", 1e-12, max(drift)))
    free = tkf.simulate(usa(1.0, norm=False), tkf.circle_tokens(starts[0]), 0.25, progress=False).final
    away = float(np.abs(np.linalg.norm(free.x, axis=1) - 1).max())
    checks.append(
        at_most("as printed, without projection: distance from the circle at t = 0.25", 1e-3, away, printed=True)
    )
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = "Angles of 12 tokens: the Kuramoto equation integrated by SciPy (lines) and USA on the circle (dots)."


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    for ax, (beta, (times, theta, x)) in zip(figure.subplots(1, 3, sharey=True), curves.items(), strict=True):
        shown = times <= 4
        lift = theta + np.angle(np.exp(1j * (np.arctan2(x[..., 1], x[..., 0]) - theta)))  # the same turn as the line
        ax.plot(times[shown], theta[shown], color=BLUE, lw=0.8)
        ax.plot(times[shown][::7], lift[shown][::7], "o", ms=2.2, color=ORANGE)
        ax.set(xlabel="time t", title=f"β = {beta:g}", xlim=(0, 4))
    figure.axes[0].set_yticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
    figure.axes[0].set_ylabel("angle")
    return figure


CLAIM = Claim(
    id="kuramoto",
    section="Models",
    title="On the circle, USA is a Kuramoto model",
    statement="With d = 2 and x_i = (cos θ_i, sin θ_i), USA is exactly θ_i' = -(1/n) Σ_j e^{β cos(θ_i-θ_j)} sin(θ_i-θ_j); "
    "β = 0 is the homogeneous Kuramoto model, which synchronizes. USA keeps the projection onto the tangent space: only the "
    "normalization Z is left out. One sentence of the survey omits the projection; without it, tokens leave the sphere.",
    source="Rigollet, The mean-field dynamics of Transformers, (USA), (4) and §3.3; Kuramoto 1975; Taylor 2012",
    measure=measure,
)
