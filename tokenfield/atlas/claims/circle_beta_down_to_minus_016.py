"""One cluster on the circle, for beta down to -0.16; and why not for every negative beta."""

import math

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, close, equal

N = 12
FLOWS = {"SA": (tkf.Softmax, "#0072B2"), "USA": (tkf.Unnormalized, "#D55E00")}
TRIANGLE = np.repeat(2 * np.pi / 3 * np.arange(3), N // 3)


def run(flow: str, beta: float, angles: np.ndarray, t1: float = 1e4) -> tkf.Trajectory:
    model = tkf.Transformer(FLOWS[flow][0](beta=beta), norm=tkf.PostLN())
    start, stop = tkf.circle_tokens(angles), tkf.one_cluster()
    return tkf.simulate(model, start, t1, save_at=2, stop_when=stop, rtol=1e-10, atol=1e-12, progress=False)


def triangle_rate(flow: str, beta: float) -> float:
    """Return the growth rate of a shift of three equal groups 120° apart: `-f'(2pi/3)`, `f = e^{beta cos} sin` (SA: over Z)."""
    far = math.exp(-beta / 2)
    return (0.5 + 0.75 * beta) * far / ((math.exp(beta) + 2 * far) / 3 if flow == "SA" else 1.0)


def measured_rate(flow: str, beta: float) -> float:
    """Return the same from a run: the rate at which the angle between the first two groups leaves 120° or returns to it."""
    shift = 1e-5 * np.repeat([1.0, -1.0, 0.0], N // 3)
    trajectory = run(flow, beta, TRIANGLE + shift, t1=1 / abs(triangle_rate(flow, beta)))
    x = trajectory.dataset["x"].values
    change = np.arccos((x[:, 0] * x[:, N // 3]).sum(-1)) - 2 * np.pi / 3
    return float(np.log(change[-1] / change[0]) / trajectory.times[-1])


def measure(quick: bool) -> Evidence:
    rng = np.random.default_rng(0)
    starts = rng.uniform(0, 2 * np.pi, (4 if quick else 40, N))
    groups = TRIANGLE + 0.1 * rng.standard_normal(N)
    checks, rates = [], {}
    for flow in FLOWS:
        for beta in (-0.15, 0.0, 2.0) if quick else (-0.15, -0.1, 0.0, 0.5, 1.0, 2.0, 3.0):
            done = sum(len(tkf.clusters(run(flow, beta, angles).final, tol=2e-3).sizes) == 1 for angles in starts)
            checks.append(
                equal(f"{flow}, β = {beta:g}: number of random starts that end in one cluster", len(starts), done)
            )
        rates[flow] = {beta: measured_rate(flow, beta) for beta in (-1.5, -1.25, -1.0, -0.8, -0.4, -0.15, 0.5, 1.0)}
        for beta in (-0.4, -1.0):
            what = f"{flow}, β = {beta:g}: growth rate of a shift of three groups 120° apart"
            checks.append(close(what, triangle_rate(flow, beta), rates[flow][beta], rtol=1e-3))
        left = len(tkf.clusters(run(flow, -3.0, groups, t1=100.0).final).sizes)
        checks.append(equal(f"{flow}, β = -3: clusters at the end, from three loose groups 120° apart", 3, left))
    return Evidence(tuple(checks), draw(rates), CAPTION)


CAPTION = (
    "Growth rate of a small shift of three equal groups 120° apart: formula (lines) and 12 simulated tokens (dots). "
    "Where it is negative (β < -2/3) the groups are stable, so not every start ends in one cluster. Gray: β > -0.16, proved."
)


def draw(rates):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    beta = np.linspace(-1.55, 1.1, 200)
    ax.axvspan(-0.16, 1.1, color="0.92", lw=0)
    ax.axhline(0, color="0.5", lw=0.8)
    ax.axvline(-2 / 3, color="0.5", lw=0.8, ls=":")
    ax.annotate("β = −2/3", (-2 / 3, -1.3), xytext=(5, 0), textcoords="offset points", color="0.3")
    for flow, (_, color) in FLOWS.items():
        ax.plot(beta, [triangle_rate(flow, b) for b in beta], color=color, label=flow)
        ax.plot(list(rates[flow]), list(rates[flow].values()), "o", ms=5, color=color)
    ax.set(xlabel="β", ylabel="growth rate of the shift", xlim=(-1.55, 1.1))
    ax.legend(frameon=False, loc="lower right")
    return figure


CLAIM = Claim(
    id="circle_beta_down_to_minus_016",
    section="Clustering on the sphere",
    title="One cluster on the circle, for β > -0.16",
    statement="On the circle (d = 2) almost every start ends in one cluster for all β > -0.16, under SA and USA. Some lower "
    "limit on β is needed: three equal groups 120° apart are linearly stable if β < -2/3.",
    source="Rigollet, The mean-field dynamics of Transformers, Remark 2; Polyanskiy, Rigollet, Yao 2025; the limit -2/3 is "
    "derived here",
    measure=measure,
)
