"""At most d random tokens in R^d share a hemisphere: almost surely, but not for every choice of points."""

from math import comb

import numpy as np

from ..claim import Claim, Evidence, close, equal

BLUE, ORANGE = "#0072B2", "#D55E00"
D = 8


def random_tokens(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.standard_normal((n, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def share_hemisphere(x: np.ndarray) -> bool:
    """Return True if some w has <x_i, w> > 0 for all i.

    If not, some lambda ≥ 0 with sum 1 has `sum_i lambda_i x_i = 0` (Gordan). Least squares over lambda ≥ 0 for these equations
    finds such a lambda; otherwise `w = sum_i lambda_i x_i` is a solution.
    """
    from scipy.optimize import nnls

    n, d = x.shape
    w = x.T @ nnls(np.vstack([x.T, np.ones(n)]), np.eye(d + 1)[d])[0]
    return bool((x @ w).min() > 1e-10)


def wendel(n: int) -> float:
    """Return the probability that n independent uniform points on the sphere of R^d share an open hemisphere (Wendel 1962)."""
    return sum(comb(n - 1, k) for k in range(D)) / 2 ** (n - 1)


def measure(quick: bool) -> Evidence:
    draws, rng = 1000 if quick else 20_000, np.random.default_rng(0)
    few = [random_tokens(rng, 2 + k % (D - 1)) for k in range(draws)]  # n = 2 … 8 = d
    solved = sum(bool((x @ np.linalg.lstsq(x, np.ones(len(x)), rcond=None)[0] > 0.5).all()) for x in few)
    checks = [
        equal("draws with n ≤ d = 8 in which X w = 1 has a solution, so that <x_i, w> > 0", draws, solved),
        equal("the same draws, tested by Gordan's alternative", draws, sum(map(share_hemisphere, few))),
    ]
    shares = {}
    for n in range(6, 29, 2):
        shares[n] = float(np.mean([share_hemisphere(random_tokens(rng, n)) for _ in range(draws)]))
        if n in (12, 16, 20):
            allowed = 4 * np.sqrt(wendel(n) * (1 - wendel(n)) / draws)
            what = f"n = {n} > d = 8: fraction of draws in an open hemisphere (Wendel's formula)"
            checks.append(close(what, wendel(n), shares[n], atol=allowed))
    x = np.array([0.48, 0.6, 0.64])
    what = "as printed, n points in dimension d ≥ n must share a hemisphere: do x and -x in R^3?"
    checks.append(equal(what, True, share_hemisphere(np.stack([x, -x])), printed=True))
    return Evidence(tuple(checks), draw(shares, draws), CAPTION)


CAPTION = (
    "Probability that n independent uniform tokens on the sphere of R^8 share an open hemisphere: Wendel's formula (line) "
    "and random draws (dots, with two standard errors)."
)


def draw(shares, draws):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    ax = figure.subplots()
    n, p = np.arange(2, 31), np.array(list(shares.values()))
    ax.plot(n, [wendel(int(k)) for k in n], color=BLUE, label="Wendel's formula")
    error = 2 * np.sqrt(p * (1 - p) / draws)
    ax.errorbar(list(shares), p, error, fmt="o", ms=4, color=ORANGE, label=f"measured, {draws} draws each")
    ax.axvline(D, color="0.6", lw=1, ls=":")
    ax.annotate("n = d", (D, 0.05), xytext=(4, 0), textcoords="offset points", color="0.3")
    ax.set(xlabel="number of tokens n", ylabel="probability", ylim=(-0.03, 1.05))
    ax.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="high_dimension_hemisphere",
    section="Clustering on the sphere",
    title="In dimension d ≥ n random tokens share a hemisphere",
    statement="n ≤ d independent uniform tokens on the sphere of R^d lie in an open hemisphere almost surely: they are "
    "linearly independent, so X w = 1 has a solution. For n > d the probability is below 1, and 1/2 at n = 2d (Wendel). "
    "The printed statement, for every n ≤ d points, is false: x and -x share no open hemisphere.",
    source="Rigollet, The mean-field dynamics of Transformers, §4.2 and Corollary 4; Wendel 1962",
    measure=measure,
)
