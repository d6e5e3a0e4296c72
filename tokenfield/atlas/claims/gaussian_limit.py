"""Limit of Gaussian data if M has no positive eigenvalue: a law on the kernel of M, but not the projection of Sigma_0."""

import numpy as np

import tokenfield as tkf
from tokenfield.theory.gaussian import gaussian_closed_form, gaussian_limit

from ..claim import Claim, Evidence, at_least, at_most, close

KERNELS, TIMES = ("softmax", "L2", "Sinkhorn"), np.concatenate([[0], np.geomspace(1e-3, 1e7, 121)])
q = np.array([0.40632365, 0.91372922])
PLANE = (  # a problem in R^2, embedded in R^3
    np.array([[*q, 0], [0, 0, 0], [0, 0, 0]]),
    np.array([[0.7, 0.1, 0], [0.1, 0.3, 0], [0, 0, 0]]),
)


def attention(K: np.ndarray, kernel: str) -> tkf.MultiHead:
    """Return three heads, Q = −K, V = I, `A = K^T Q/sqrt 2`, of which only `kernel` is on: one program serves all kernels."""
    heads = [head(2**-0.5, Q=-K, K=K) for head in (tkf.Softmax, tkf.L2, tkf.Sinkhorn)]
    return tkf.MultiHead(heads, [float(kernel == name) for name in KERNELS])


def random_case(rng, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys K of the given rank (below 3) in R^3, and a covariance."""
    K, root = np.zeros((3, 3)), rng.standard_normal((3, 3))
    K[:rank] = rng.standard_normal((rank, 3))
    return K, root @ root.T / 3


def measure(quick: bool) -> Evidence:
    rng = np.random.default_rng(0)
    cases = [PLANE, *(random_case(rng, rank) for rank in (1, 2) for _ in range(1 if quick else 8))]
    models = [tkf.Transformer(attention(K, kernel)) for kernel in KERNELS for K, _ in cases]
    states = [tkf.Gaussian(None, cov) for _ in KERNELS for _, cov in cases]
    run = tkf.simulate_many(models, states, TIMES[-1], save_at=TIMES, rtol=1e-11, atol=1e-14, progress=False)
    paths = run.dataset["cov"].values.reshape(len(KERNELS), len(cases), len(TIMES), 3, 3)
    limits = np.array([gaussian_limit(-K.T @ K / np.sqrt(2), None, cov) for K, cov in cases])
    published = (("11", 0.3792475), ("12", -0.1686465), ("22", 0.0749949))
    entry = lambda name: paths[0, 0, -1][int(name[0]) - 1, int(name[1]) - 1]  # noqa: E731
    checks = [
        close(f"q, Σ₀ of the figure, softmax, t = 1e7: Σ*_{{{at}}}", value, entry(at), atol=2e-7)
        for at, value in published
    ]
    for name, path in zip(KERNELS, paths, strict=True):
        off = np.abs(path[:, -1] - limits).max() / np.abs(limits).max()
        checks.append(at_most(f"{name}, keys of rank 1 and 2 in R³, t = 1e7: distance from Σ*", 1e-5, off))
    early = TIMES[TIMES <= 1e3]
    exact = [[gaussian_closed_form(-K.T @ K / np.sqrt(2), None, cov, t) for t in early] for K, cov in cases]
    error = np.abs(paths[0, :, : len(early)] - np.array(exact)).max()
    checks.append(at_most("softmax, t ≤ 1000: largest error of Σ(t) against the closed form", 1e-9, error))
    wrong = projected(*PLANE)
    away = np.linalg.norm(wrong - limits[0]) / np.linalg.norm(limits[0])
    checks.append(at_least("projection of Σ₀ onto ker M instead: relative distance from Σ*", 0.1, away))
    caption = "Distance to Σ*, which decays like 1/t, for q = (.406, .914), K = qᵀ, Q = −K, Σ₀ = ((.7, .1), (.1, .3))."
    return Evidence(tuple(checks), draw(paths[:, 0], limits[0], wrong), caption)


def projected(K: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return `N N^T Sigma_0 N N^T`, N a basis of ker M."""
    eigenvalues, vectors = np.linalg.eigh(K.T @ K)
    N = vectors[:, eigenvalues < 1e-9]
    return N @ N.T @ cov @ N @ N.T


def draw(paths, limit, wrong):
    from matplotlib.figure import Figure

    size = lambda difference: np.linalg.norm(difference, axis=(1, 2))  # noqa: E731
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="time $t$", ylabel=r"$|\Sigma(t) - \Sigma^*|$", xscale="log", yscale="log")
    styles = ("#D55E00", "-"), ("#0072B2", "-"), ("#009E73", (0, (3, 3)))
    for path, name, (color, dash) in zip(paths, KERNELS, styles, strict=True):
        axes.plot(TIMES[1:], size(path[1:] - limit), color=color, ls=dash, lw=1.8, label=name)
    axes.plot(
        TIMES[1:], size(paths[0, 1:] - wrong), ":", color="black", label=r"softmax, to the projection of $\Sigma_0$"
    )
    axes.legend(frameon=False, loc="lower left")
    return figure


CLAIM = Claim(
    id="gaussian_limit",
    section="Gaussian data",
    title="The limit of Gaussian data",
    statement="If M = A + Aᵀ has no positive eigenvalue and V = I, softmax attention sends Σ(t) to Σ* = "
    "N(NᵀΣ₀⁻¹N)⁻¹Nᵀ, N a basis of ker M: a law on ker M, but not the projection of Σ₀ onto ker M. L2 attention with "
    "Q = −K and Sinkhorn attention with A = −KᵀK have the same limit, because all three conserve NᵀΣ⁻¹N.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part III, on Castin, Ablin, Carrillo, Peyré 2025, "
    "with the limit and the L2 and Sinkhorn cases derived here",
    measure=measure,
)
