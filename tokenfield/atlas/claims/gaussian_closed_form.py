"""Softmax attention on Gaussian data: covariance and mean in closed form."""

import numpy as np

import tokenfield as tkf
from tokenfield.theory.gaussian import gaussian_closed_form, gaussian_mean

from ..claim import Claim, Evidence, at_least, at_most

D, TIMES = 3, np.linspace(0, 1, 21)


def frame(rng) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((D, D)))[0]


def wishart(rng, rank: int = D) -> np.ndarray:
    root = rng.standard_normal((D, rank))
    return root @ root.T / rank


def number_case(rng, rank: int = D):
    """Return a case with V = v I, any A and any covariance of this rank."""
    return rng.standard_normal((D, D)), rng.uniform(-2, 2) * np.eye(D), wishart(rng, rank), np.zeros(D)


def commuting_case(rng):
    """Return a case in which V has a double eigenvalue and commutes with M and Sigma_0, while M and Sigma_0 do not commute."""
    U, v = frame(rng), np.repeat(rng.uniform(0.5, 2, 2), [2, 1])
    blocks = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    skew = rng.standard_normal((D, D))
    VA = blocks * (wishart(rng) - wishart(rng)) + skew - skew.T
    return U @ np.diag(1 / v) @ VA @ U.T, (U * v) @ U.T, U @ (blocks * wishart(rng)) @ U.T, np.zeros(D)


def mean_case(rng):
    """Return a case with V = I, a symmetric A that commutes with Sigma_0, and a mean."""
    U = frame(rng)
    cov = (U * rng.uniform(0.1, 1, D)) @ U.T
    return (U * rng.standard_normal(D)) @ U.T, np.eye(D), (cov + cov.T) / 2, rng.standard_normal(D)


def other_case(rng):
    """Return a case with a random V, to which the closed form does not apply."""
    return rng.standard_normal((D, D)) / 4, rng.standard_normal((D, D)), wishart(rng), np.zeros(D)


def scaled(case):
    """Return the case with A scaled so that blow-up is at t = 1.25, or else so that Sigma changes by about its size in t = 1."""
    A, V, cov, mean = case
    M = V @ A + A.T @ V.T
    rates = np.linalg.eigvals(cov @ M).real
    rate = rates.max() if rates.max() > 1e-9 else -rates.min() / 2
    return A / (1.25 * rate), V, cov, mean


def error(found: np.ndarray, exact: np.ndarray) -> float:
    axes = tuple(range(1, found.ndim))
    return float((np.abs(found - exact).max(axes) / np.abs(exact).max(axes)).max())


def measure(quick: bool) -> Evidence:
    rng, each = np.random.default_rng(0), 4 if quick else 24
    kinds = (number_case, lambda rng: number_case(rng, 2), commuting_case, mean_case)
    cases = [scaled(make(rng)) for make in kinds for _ in range(each)] + [other_case(rng)]
    models = [tkf.Transformer(tkf.Softmax(A=A, V=V)) for A, V, *_ in cases]
    states = [tkf.Gaussian(mean, cov) for *_, cov, mean in cases]
    run = tkf.simulate_many(models, states, 1.0, save_at=TIMES, rtol=1e-13, atol=1e-15, progress=False)
    covs, means = run.dataset["cov"].values, run.dataset["mean"].values
    exact = [np.array([gaussian_closed_form(A, V, cov, t) for t in TIMES]) for A, V, cov, _ in cases[:-1]]
    worst = [error(found, right) for found, right in zip(covs, exact, strict=False)]
    first = 3 * each
    off = [
        error(means[k], np.array([gaussian_mean(A, mean, cov, t) for t in TIMES]))
        for k, (A, _, cov, mean) in enumerate(cases[first : first + each], first)
    ]
    A, V, cov, _ = cases[-1]
    naive = np.linalg.inv(np.linalg.inv(cov) - TIMES[5] * (V @ A + A.T @ V.T))
    part = lambda k: max(worst[k * each : (k + 1) * each])  # noqa: E731
    checks = (
        at_most(f"V = vI, {each} random A, Σ₀: largest relative error of Σ(t), t ≤ 0.8 t*", 1e-9, part(0)),
        at_most("the same with Σ₀ of rank 2 in R³", 1e-9, part(1)),
        at_most("V with a double eigenvalue that commutes with M and Σ₀, while MΣ₀ ≠ Σ₀M", 1e-9, part(2)),
        at_most("V = I, symmetric A that commutes with Σ₀: Σ(t)", 1e-9, part(3)),
        at_most("the same: the mean e^t Σ(t)^½ Σ₀^-½ α₀", 1e-9, max(off)),
        at_least(
            "V that does not commute: relative error of the formula at t = 0.25",
            1e-2,
            error(covs[-1, 5:6], naive[None]),
        ),
    )
    caption = "Eigenvalues of Σ(t) for three random A and V = vI. Lines: closed form; dots: simulated."
    return Evidence(checks, draw([(covs[k], cases[k]) for k in range(3)]), caption)


def draw(shown):
    from matplotlib.figure import Figure

    figure, fine = Figure(figsize=(6, 3.5), layout="constrained"), np.linspace(0, 1, 101)
    axes = figure.add_subplot(xlabel="time $t$", ylabel=r"eigenvalues of $\Sigma(t)$", yscale="log")
    for (covs, (A, V, cov, _)), color, marker in zip(shown, ("#0072B2", "#D55E00", "#009E73"), "os^", strict=True):
        lines = np.linalg.eigvalsh([gaussian_closed_form(A, V, cov, t) for t in fine])
        axes.plot(fine, lines, color=color, lw=1)
        axes.plot(TIMES, np.linalg.eigvalsh(covs), marker, color=color, ms=3.5)
    return figure


CLAIM = Claim(
    id="gaussian_closed_form",
    section="Gaussian data",
    title="Closed form for Gaussian data",
    statement="Under softmax attention with constant A, V, let M = VA + AᵀVᵀ. If V commutes with M and Σ₀ then "
    "Σ(t) = (Σ₀⁻¹ − tM)⁻¹ up to its blow-up, also for singular Σ₀ when written without inverses. If moreover V = I "
    "and A is symmetric and commutes with Σ₀, the mean is e^t Σ(t)^½ Σ₀^-½ α₀.",
    source="Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part III; Castin, Ablin, Carrillo, Peyré "
    "2025; the mean is derived here",
    measure=measure,
)
