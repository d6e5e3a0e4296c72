"""One cluster from almost every start, in dimension 3 and above."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, equal

N, D, T1 = 16, 8, 1e5
COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7")
FLOWS = {"SA": tkf.Softmax, "USA": tkf.Unnormalized}


def padded(x: np.ndarray) -> tkf.Tokens:
    """Tokens of R^3 as tokens of R^8. The flow keeps zeros at zero, and both dimensions share one compiled loop."""
    return tkf.Tokens(np.pad(x, [(0, 0), (0, D - x.shape[1])]))


def model(flow: str, beta: float) -> tkf.Transformer:
    return tkf.Transformer(FLOWS[flow](beta=beta), norm=tkf.PostLN())


def run(flow: str, beta: float, tokens: tkf.Tokens) -> tkf.Trajectory:
    times = np.append(0.0, np.geomspace(0.1, T1, 100))
    return tkf.simulate(model(flow, beta), tokens, t1=T1, save_at=times, stop_when=tkf.one_cluster(1e-3))


def antipodal(nudge: float) -> np.ndarray:
    """Half of the tokens at e_1, half at -e_1, and then each moved by a Gaussian of size `nudge`."""
    x = np.outer(np.repeat([1.0, -1.0], N // 2), [1.0, 0.0, 0.0]) + nudge * np.random.default_rng(0).normal(size=(N, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def measure(quick: bool) -> Evidence:
    betas = (0.0, 1.0, 3.0) if quick else (0.0, 0.5, 1.0, 2.0, 4.0)
    seeds = range(3 if quick else 20)
    runs = {
        (flow, d, beta, seed): run(flow, beta, padded(np.asarray(tkf.uniform_sphere(N, d, seed=seed).x)))
        for flow in FLOWS
        for d in (3, D)
        for beta in betas
        for seed in seeds
    }
    checks = []
    for flow in FLOWS:
        for d in (3, D):
            group = [trajectory for key, trajectory in runs.items() if key[:2] == (flow, d)]
            done = sum(tkf.clusters(trajectory.final).count == 1 for trajectory in group)
            checks.append(equal(f"{flow}, d = {d}: random starts that end in one cluster", len(group), done))
        still = padded(antipodal(0.0))
        speed = np.abs(tkf.simulate(model(flow, 1.0), still, t1=0.1).final.x - still.x).max()
        checks.append(at_most(f"{flow}: displacement from 8 tokens at x and 8 at -x, the exception", 1e-14, speed))
        nudged = tkf.clusters(run(flow, 1.0, padded(antipodal(1e-3))).final).count
        checks.append(equal(f"{flow}: clusters at the end after a nudge of 0.001 to that start", 1, nudged))
    return Evidence(tuple(checks), draw(runs, betas), CAPTION)


CAPTION = (
    "Smallest cosine between two tokens, n = 16, one curve for each random start: d = 3 (solid) and d = 8 (dashed). "
    "A run ends when all cosines exceed 0.999; from there on the tokens share a hemisphere and converge."
)


def draw(runs, betas):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = dict(zip(FLOWS, figure.subplots(1, 2, sharex=True, sharey=True), strict=True))
    for (flow, d, beta, seed), trajectory in runs.items():
        cosines = [tkf.pairwise_cosines(state).min() for state in trajectory.states]
        label = f"β = {beta:g}" if seed == 0 and d == 3 else None
        style = {"color": COLOURS[betas.index(beta)], "ls": "-" if d == 3 else "--", "lw": 1, "alpha": 0.8}
        axes[flow].plot(trajectory.times[1:], cosines[1:], label=label, **style)
    for flow, ax in axes.items():
        ax.set(xscale="log", xlabel="time t", title=flow, ylim=(-1.05, 1.05))
    axes["SA"].set_ylabel("smallest cosine")
    axes["USA"].legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="one_cluster",
    section="Clustering on the sphere",
    title="One cluster from almost every start",
    statement="In dimension d ≥ 3, for every β ≥ 0 and almost every start, all n tokens converge to one point, under SA "
    "and under USA. The exceptions are real but unstable: two antipodal groups stand still, and leave when nudged.",
    source="Rigollet, The mean-field dynamics of Transformers, Theorem 1; Markdahl, Thunberg, Gonçalves 2017; "
    "Criscitiello, Rebjock, McRae, Boumal 2024; Geshkovski, Letrouit, Polyanskiy, Rigollet 2025",
    measure=measure,
)
