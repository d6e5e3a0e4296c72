"""One cluster from almost every start, in dimension 3 and above."""

import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_most, equal

N, D, T1 = 16, 8, 1e5
COLOURS = ("#0072B2", "#009E73", "#D55E00", "#E69F00", "#CC79A7")
FLOWS = {"SA": tkf.Softmax, "USA": tkf.Unnormalized}


def padded(x: np.ndarray) -> tkf.Tokens:
    """Tokens of R^3 as tokens of R^8: the flow keeps zeros at zero, and both dimensions share one compiled loop."""
    return tkf.Tokens(np.pad(x, [(0, 0), (0, D - x.shape[1])]))


def model(flow: str, beta: float) -> tkf.Transformer:
    return tkf.Transformer(FLOWS[flow](beta=beta), norm=tkf.PostLN())


def run(flow: str, beta: float, start: tkf.Tokens) -> tkf.Trajectory:
    times, stop = np.append(0.0, np.geomspace(0.1, T1, 100)), tkf.one_cluster(1e-3)
    return tkf.simulate(model(flow, beta), start, T1, save_at=times, stop_when=stop, progress=False)


def collapsed(trajectory: tkf.Trajectory) -> bool:
    """One cluster at the end. The run stops on the very boundary of 1e-3: twice that leaves no doubt by rounding."""
    return tkf.clusters(trajectory.final, tol=2e-3).count == 1


def antipodal(nudge: float) -> tkf.Tokens:
    """Half of the tokens at e_1, half at -e_1, and then each moved by a Gaussian of size `nudge`."""
    signs = np.repeat([1.0, -1.0], N // 2)
    x = signs[:, None] * np.eye(3)[0] + nudge * np.random.default_rng(0).standard_normal((N, 3))
    return padded(x / np.linalg.norm(x, axis=1, keepdims=True))


def measure(quick: bool) -> Evidence:
    betas = (0.0, 1.0, 3.0) if quick else (0.0, 0.5, 1.0, 2.0, 4.0)
    checks, runs = [], {}
    for flow in FLOWS:
        for d in (3, D):
            starts = [padded(tkf.uniform_sphere(N, d, seed=seed).x) for seed in range(2 if quick else 20)]
            group = {(flow, d, beta, k): run(flow, beta, x) for beta in betas for k, x in enumerate(starts)}
            done = sum(map(collapsed, group.values()))
            checks.append(equal(f"{flow}, d = {d}: random starts that end in one cluster", len(group), done))
            runs |= group
        field = segments(antipodal(0.0), model(flow, 1.0))[0].flow
        speed = float(abs(field.velocity(0.0, field.pack(antipodal(0.0))).theta).max())
        checks.append(at_most(f"{flow}: speed of 8 tokens at x and 8 at -x, an exception", 1e-15, speed))
        nudged = collapsed(run(flow, 1.0, antipodal(1e-3)))
        checks.append(equal(f"{flow}: that start, moved by 0.001, ends in one cluster", True, nudged))
    return Evidence(tuple(checks), draw(runs, betas), CAPTION)


CAPTION = (
    "Smallest cosine between two of 16 tokens, one curve for each random start: d = 3 (solid), d = 8 (dashed). A run ends "
    "when all cosines exceed 0.999: then the tokens share a hemisphere and converge."
)


def draw(runs, betas):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = dict(zip(FLOWS, figure.subplots(1, 2, sharex=True, sharey=True), strict=True))
    for (flow, d, beta, k), trajectory in runs.items():
        x = trajectory.dataset["x"].values
        cosines = (x @ np.swapaxes(x, 1, 2)).min(axis=(1, 2))
        label = f"β = {beta:g}" if (d, k) == (3, 0) else None
        colour, style = COLOURS[betas.index(beta)], "-" if d == 3 else "--"
        axes[flow].semilogx(trajectory.times[1:], cosines[1:], style, color=colour, lw=1, alpha=0.8, label=label)
        axes[flow].set(xlabel="time t", title=flow, ylim=(-1.05, 1.05))
    axes["SA"].set_ylabel("smallest cosine")
    axes["USA"].legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="one_cluster",
    section="Clustering on the sphere",
    title="One cluster from almost every start",
    statement="In dimension d ≥ 3, for every β ≥ 0 and almost every start, all n tokens converge to one point, under SA "
    "and under USA. The exceptions are real but unstable: two antipodal groups stand still, and leave when moved.",
    source="Rigollet, The mean-field dynamics of Transformers, Theorem 1; Markdahl, Thunberg, Gonçalves 2017; "
    "Criscitiello, Rebjock, McRae, Boumal 2024; Geshkovski, Letrouit, Polyanskiy, Rigollet 2025",
    measure=measure,
)
