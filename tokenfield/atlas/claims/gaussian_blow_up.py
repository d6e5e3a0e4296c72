"""Which attention kernels make Gaussian data blow up in finite time, and when."""

import numpy as np

import tokenfield as tkf
from tokenfield.theory.gaussian import gaussian_blowup_time

from ..claim import Claim, Evidence, at_most, close, equal

D, KERNELS = 2, ("softmax", "L2", "Sinkhorn")
NARROW = (np.array([[0.0, 1], [0, 0]]), np.array([[1.0, 0], [0, 0]]), np.diag([0.0, 1]), np.array([[1, 0.5], [0.5, 1]]))


def attention(Q, K, V, kernel: str) -> tkf.MultiHead:
    """Return three heads of which only `kernel` is switched on, so that one compiled program serves all kernels."""
    heads = [head(Q=Q, K=K, V=V) for head in (tkf.Softmax, tkf.L2, tkf.Sinkhorn)]
    return tkf.MultiHead(heads, [float(kernel == name) for name in KERNELS])


def random_case(rng):
    """Return Q (norm at most 4), K (condition number at most 20), V = vI and a covariance with softmax blow-up in 0.2 < t < 2."""
    while True:
        Q, K, root = rng.standard_normal((3, D, D))
        v, cov = rng.uniform(0.5, 1.5), root @ root.T
        time = gaussian_blowup_time(K.T @ Q, v, cov)
        Q = Q * min(time, 1e9) / rng.uniform(0.2, 2)
        if np.linalg.norm(Q, 2) < 4 and np.linalg.cond(K) < 20:
            return Q, K, v * np.eye(D), cov


def growth(Q, K, V, covs: np.ndarray) -> float:
    """Return the largest `|Sigma'| / (2 |V| |Sigma|)` (spectral norms) along a run of Sinkhorn attention."""
    w, U = np.linalg.eigh(covs)
    S = (U * np.sqrt(np.maximum(w, 0))[:, None]) @ np.swapaxes(U, 1, 2)
    left, s, right = np.linalg.svd(S @ K.T @ Q @ S)
    half = V @ S @ (left * (2 * s / (1 + np.sqrt(1 + 4 * s**2)))[:, None]) @ right @ S
    return float(
        (np.linalg.norm(half + np.swapaxes(half, 1, 2), 2, axis=(1, 2)) / w[:, -1]).max() / 2 / np.linalg.norm(V, 2)
    )


def measure(quick: bool) -> Evidence:
    rng, T = np.random.default_rng(0), 3.5
    cases = [*(random_case(rng) for _ in range(4 if quick else 24)), NARROW]
    models = [tkf.Transformer(attention(*case[:3], kernel)) for kernel in KERNELS for case in cases]
    states = [tkf.Gaussian(None, case[3]) for _ in KERNELS for case in cases]
    times = np.linspace(0, T, 351)
    run = tkf.simulate_many(models, states, T, save_at=times, rtol=1e-11, atol=1e-13, progress=False)
    ends = np.array([next((e.time for e in events if e.kind == "blow_up"), np.inf) for events in run.events])
    softmax, l2, sinkhorn = ends.reshape(3, -1)
    exact = np.array([gaussian_blowup_time(K.T @ Q, V, cov) for Q, K, V, cov in cases[:-1]])
    covs = run.dataset["cov"].values.reshape(3, len(cases), len(times), D, D)
    bound = max(growth(*case[:3], path) for case, path in zip(cases, covs[2], strict=True))
    worst = int(np.argmax(np.abs(softmax[:-1] / exact - 1)))
    last = f"before t = {T:g}"
    checks = (
        close(
            f"softmax, {len(exact)} random A, V = vI: blow-up time, worst case", exact[worst], softmax[worst], rtol=1e-6
        ),
        equal(f"L2 with the same Q and invertible K: number of blow-ups {last}", 0, int(np.isfinite(l2[:-1]).sum())),
        equal(f"Sinkhorn with the same Q, K: number of blow-ups {last}", 0, int(np.isfinite(sinkhorn).sum())),
        at_most("Sinkhorn: largest |Σ′| / 2|V||Σ| along the runs", 1 + 1e-9, bound),
        equal("as printed, L2 does not blow up: blow-ups for a singular K", 0, int(np.isfinite(l2[-1])), printed=True),
        close("L2, K = (1, 0), Q = (0, 1), V = diag(0, 1): time of blow-up", 3.0, l2[-1], rtol=1e-6),
        close("softmax with the same singular K (V does not commute): time of blow-up", 2.0, softmax[-1], rtol=1e-6),
    )
    caption = "Left: a random case with invertible K. Right: K = (1, 0), Q = (0, 1), V = diag(0, 1). Dotted: predicted."
    shown = np.trace(covs, axis1=-2, axis2=-1)
    pick = int(np.argmin(np.abs(exact - 1.5)))
    return Evidence(checks, draw(times, shown[:, [pick, -1]], [(exact[pick],), (2.0, 3.0)]), caption)


def draw(times, traces, marks):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    for k, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        for trace, name, color in zip(traces[:, k], KERNELS, ("#D55E00", "#0072B2", "#009E73"), strict=True):
            axes.plot(times, trace, color=color, lw=1.8, label=name)
        axes.vlines(marks[k], 0.1, 1e4, color="black", ls=":", lw=1)
        axes.set(yscale="log", ylim=(0.5, 1e4), xlim=(0, 3.5), xlabel="time $t$")
    figure.axes[0].set_ylabel(r"$\mathrm{tr}\,\Sigma(t)$")
    figure.axes[0].set_title("invertible $K$", loc="left", fontsize=10)
    figure.axes[1].set_title("singular $K$", loc="left", fontsize=10)
    figure.axes[0].legend(frameon=False, loc="upper left")
    return figure


CLAIM = Claim(
    id="gaussian_blow_up",
    section="Gaussian data",
    title="Which kernels make Gaussian data blow up",
    statement="Under softmax attention with V = vI, Σ(t) blows up at t* = 1/λ_max(Σ₀^½ M Σ₀^½) if that is positive. "
    "Under Sinkhorn attention it never does, since |Σ′| ≤ 2|V||Σ|. Under L2 attention it does not if KᵀK is invertible; the talks "
    "omit this condition, and for some singular K there is a blow-up. The K of every head narrower than d is singular.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part III; Castin, Ablin, Carrillo, Peyré "
    "2025; the bound and the singular example are derived here",
    measure=measure,
)
