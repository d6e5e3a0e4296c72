"""One cluster from almost every start, in dimension 3 and above."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, equal

N, D = 16, 8
FLOWS = {"SA": tkf.Softmax, "USA": tkf.Unnormalized}
LOOKS = {3: {"color": "#0072B2", "marker": "o"}, D: {"color": "#D55E00", "marker": "^"}}


def padded(x: np.ndarray) -> tkf.Tokens:
    """Return tokens of R^3 as tokens of R^8: the flow keeps zeros at zero, and both dimensions share one compiled loop."""
    return tkf.Tokens(np.pad(x, [(0, 0), (0, D - x.shape[1])]))


def model(flow: str, beta: float) -> tkf.Transformer:
    return tkf.Transformer(FLOWS[flow](beta=beta), norm=tkf.PostLN())


def collapse(flow: str, beta: float, start: tkf.Tokens) -> float:
    """Return the time at which all cosines exceed 0.999, or infinity if that does not happen by t = 1e5."""
    run = tkf.simulate(model(flow, beta), start, 1e5, save_at=2, stop_when=tkf.one_cluster(1e-3), progress=False)
    # The run stops exactly at the boundary of 1e-3; counting with twice that tolerance is safe against rounding.
    return run.times[-1] if len(tkf.clusters(run.final, tol=2e-3).sizes) == 1 else np.inf


def antipodal(nudge: float) -> tkf.Tokens:
    """Return half of the tokens at e_1 and half at -e_1, each perturbed by a Gaussian of size `nudge`."""
    signs = np.repeat([1.0, -1.0], N // 2)
    x = signs[:, None] * np.eye(3)[0] + nudge * np.random.default_rng(0).standard_normal((N, 3))
    return padded(x / np.linalg.norm(x, axis=1, keepdims=True))


def measure(quick: bool) -> Evidence:
    betas = (0.0, 1.0, 2.0, 3.0) if quick else (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    checks, times = [], {}
    for flow in FLOWS:
        for d in (3, D):
            starts = [padded(np.asarray(tkf.uniform_sphere(N, d, seed=seed).x)) for seed in range(3 if quick else 20)]
            times[flow, d] = np.array([[collapse(flow, beta, start) for start in starts] for beta in betas])
            done = int(np.isfinite(times[flow, d]).sum())
            checks.append(
                equal(f"{flow}, d = {d}: number of starts that end in one cluster", times[flow, d].size, done)
            )
        for nudge, what in ((0.0, "8 tokens at x and 8 at -x"), (1e-3, "the same, perturbed by 0.001")):
            gathered = bool(np.isfinite(collapse(flow, 1.0, antipodal(nudge))))
            checks.append(equal(f"{flow}: one cluster from {what}", nudge > 0, gathered))
    return Evidence(tuple(checks), draw(betas, times), CAPTION)


CAPTION = (
    "Time at which all cosines exceed 0.999, for 16 tokens from random starts; lines: medians. From then on the tokens "
    "share a hemisphere, so they converge. All runs reach it; only the time depends on β."
)


def draw(betas, times):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = dict(zip(FLOWS, figure.subplots(1, 2, sharex=True, sharey=True), strict=True))
    for (flow, d), values in times.items():
        axes[flow].plot(betas, np.median(values, axis=1), color=LOOKS[d]["color"], lw=0.8)
        axes[flow].plot(np.repeat(betas, values.shape[1]), values.ravel(), ls="", ms=4, label=f"d = {d}", **LOOKS[d])
        axes[flow].set(xlabel="β", title=flow, yscale="log")
    axes["SA"].set_ylabel("time to one cluster")
    axes["SA"].legend(frameon=False)
    return figure


CLAIM = Claim(
    id="one_cluster",
    section="Clustering on the sphere",
    title="One cluster from almost every start",
    statement="In dimension d ≥ 3, for every β ≥ 0 and almost every start, all n tokens converge to one point, under SA "
    "and under USA. Exceptional starts exist but are unstable: two antipodal groups are stationary, but merge when perturbed.",
    source="Rigollet, The mean-field dynamics of Transformers, Theorem 1; Markdahl, Thunberg, Gonçalves 2017; "
    "Criscitiello, Rebjock, McRae, Boumal 2024; Geshkovski, Letrouit, Polyanskiy, Rigollet 2025",
    measure=measure,
)
