"""Few tokens in a high dimension share a hemisphere, almost surely but not always."""

from math import comb

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, close, equal

BLUE, ORANGE = "#0072B2", "#D55E00"
D = 8


def in_open_hemisphere(x: np.ndarray) -> bool:
    """Is there w with <x_i, w> > 0 for all i? Maximise m subject to <x_i, w> ≥ m, |w_k| ≤ 1: yes iff m > 0."""
    from scipy.optimize import linprog

    n, d = x.shape
    answer = linprog(
        np.append(np.zeros(d), -1.0), A_ub=np.hstack([-x, np.ones((n, 1))]), b_ub=np.zeros(n), bounds=[(-1, 1)] * (d + 1)
    )
    return bool(-answer.fun > 1e-9)


def wendel(n: int, d: int) -> float:
    """Probability that n independent uniform points of the sphere of R^d share an open hemisphere (Wendel 1962)."""
    return sum(comb(n - 1, k) for k in range(d)) / 2 ** (n - 1)


def measure(quick: bool) -> Evidence:
    draws = 250 if quick else 4000
    rng = np.random.default_rng(0)
    sample = lambda n, d: np.asarray(tkf.uniform_sphere(n, d, seed=int(rng.integers(2**31))).x)  # noqa: E731
    solved = linear = 0
    for k in range(draws):
        n = 2 + k % (D - 1)  # n = 2 … 8 = d
        x = sample(n, D)
        w = np.linalg.lstsq(x, np.ones(n), rcond=None)[0]  # X w = 1 has a solution: X has full row rank
        solved += bool((x @ w > 0.5).all())
        linear += in_open_hemisphere(x)
    checks = [
        equal("draws with n ≤ d = 8: X w = 1 solved, so that <x_i, w> > 0", draws, solved),
        equal("the same draws by linear programming", draws, linear),
    ]
    sizes = np.arange(6, 29, 2)
    shares = np.array([np.mean([in_open_hemisphere(sample(n, D)) for _ in range(draws)]) for n in sizes])
    for n, share in zip(sizes, shares, strict=True):
        if n in (12, 16, 20):
            p = wendel(int(n), D)
            allowed = 4 * np.sqrt(p * (1 - p) / draws)
            checks.append(close(f"n = {n} > d = 8: share of draws in an open hemisphere (Wendel)", p, share, atol=allowed))
    x = np.array([[0.6, 0.0, 0.8], [-0.6, 0.0, -0.8]])
    what = "as printed, n ≤ d points must share an open hemisphere: do x and -x in R^3?"
    checks.append(equal(what, True, in_open_hemisphere(x), printed=True))
    return Evidence(tuple(checks), draw(sizes, shares, draws), CAPTION)


CAPTION = (
    "Probability that n independent uniform tokens on the sphere of R^8 share an open hemisphere: Wendel's formula (line) "
    "and random draws tested by linear programming (dots, with two standard errors)."
)


def draw(sizes, shares, draws):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    n = np.arange(2, 31)
    ax.plot(n, [wendel(int(k), D) for k in n], color=BLUE, label="Wendel's formula")
    error = 2 * np.sqrt(shares * (1 - shares) / draws)
    ax.errorbar(sizes, shares, error, fmt="o", ms=4, color=ORANGE, label=f"measured, {draws} draws each")
    ax.axvline(D, color="0.6", lw=1, ls=":")
    ax.annotate("n = d", (D, 0.05), xytext=(4, 0), textcoords="offset points", color="0.4")
    ax.set(xlabel="number of tokens n", ylabel="probability", ylim=(-0.03, 1.05))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="high_dimension_hemisphere",
    section="Clustering on the sphere",
    title="In dimension d ≥ n random tokens share a hemisphere",
    statement="n ≤ d independent uniform tokens on the sphere of R^d lie in an open hemisphere almost surely: they are "
    "linearly independent, so X w = 1 has a solution. By Wendel's formula the probability falls below 1 as soon as n > d, "
    "and is 1/2 at n = 2d. It is not true of all n ≤ d points, as printed: x and -x share no open hemisphere.",
    source="Rigollet, The mean-field dynamics of Transformers, §4.2 and Corollary 4; Wendel 1962",
    measure=measure,
)
