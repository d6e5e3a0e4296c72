"""First clusters of very many tokens, on the circle and on the 2-sphere."""

import math

import numpy as np

import tokenfield as tkf

from ...driver.collapse import group_tokens
from ..claim import Claim, Evidence, close

SAVED = 46
BETAS = {2: (7.0, 30.0, 100.0), 3: (10.0, 20.0, 50.0)}


def predicted(beta: float, d: int) -> float:
    """Return k_max on the circle; on the sphere the mean number of maxima of a random harmonic of degree l = k_max."""
    top = tkf.theory.first_clusters(beta, d)
    return top if d == 2 else top * (top + 1) / (2 * math.sqrt(3))


def first_clusters(beta: float, d: int, n: int, seed: int) -> tuple[int, np.ndarray]:
    """Return the number of clusters when 98 % of the tokens first are in tight groups, and the tokens (n, d) at that time."""
    rate = tkf.theory.growth_rates(beta, d, modes=[tkf.theory.first_clusters(beta, d)])[0]
    wait = math.log(n) / (2 * rate)  # time to grow from amplitude n^(-1/2) to 1
    model = tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN())
    times = np.linspace(wait - 1, wait + 20, SAVED)
    options = {"save_at": times, "rtol": 1e-4, "atol": 1e-6, "progress": False}
    run = tkf.simulate(model, tkf.uniform_sphere(n, d, seed=seed), times[-1], **options)
    for x in run.dataset["x"].values:
        sizes = np.bincount(group_tokens(x, 0.3 * beta**-0.5))
        large = sizes[sizes >= n / (10 * predicted(beta, d))]
        if large.sum() >= 0.98 * n:
            return len(large), x
    return 0, x


def measure(quick: bool) -> Evidence:
    checks, seen = [], {}
    for d, betas in ({2: (100.0,), 3: (20.0,)} if quick else BETAS).items():
        n = (4000 if d == 2 else 2000) if quick else 100_000
        for beta in betas:
            found = [first_clusters(beta, d, n, seed) for seed in range(1 if quick or d == 3 else 3)]
            seen[d, beta] = [count for count, _ in found]
            if d == 3:
                shown = beta, found[0][1]
            where = "circle" if d == 2 else "sphere"
            expected = predicted(beta, d)
            allowed = max(1.0, 0.1 * expected) if d == 2 else expected / 3
            what = f"{where}, β = {beta:g}, {n:,} tokens: mean first count"
            checks.append(close(what, expected, float(np.mean(seen[d, beta])), atol=allowed))
    return Evidence(tuple(checks), draw(seen, *shown), CAPTION)


CAPTION = (
    "First clusters from independent uniform tokens. Left: counts (dots) on the circle, with k_max (line), and on the sphere, "
    "with l(l+1)/2√3 for l = k_max (dashed). Right: the first clusters on the sphere, longitude against sine of latitude "
    "(an equal-area map), at the largest β."
)


def draw(seen, beta: float, x: np.ndarray):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for d, color, line, name in ((2, "#0072B2", "-", "circle"), (3, "#D55E00", "--", "sphere")):
        grid = np.geomspace(5, 130 if d == 2 else 65, 150)
        left.plot(grid, [predicted(b, d) for b in grid], line, color=color, lw=1.2)
        for b in {b for dim, b in seen if dim == d}:
            left.plot([b] * len(seen[d, b]), seen[d, b], "o", ms=5, color=color, alpha=0.7)
        left.plot([], [], "o" + line, color=color, label=name)
    left.set(xscale="log", yscale="log", xlabel="β", ylabel="first clusters")
    left.set_yticks([3, 5, 10, 20, 40], ["3", "5", "10", "20", "40"])
    left.minorticks_off()
    left.set_xticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    left.legend(frameon=False)
    right.plot(np.arctan2(x[:, 1], x[:, 0]), x[:, 2], ".", ms=5, color="#D55E00", rasterized=True)
    right.set(xlim=(-np.pi, np.pi), ylim=(-1, 1), xlabel="longitude", ylabel="sine of latitude", title=f"β = {beta:g}")
    right.set_xticks([-np.pi, 0, np.pi], ["-π", "0", "π"])
    return figure


CLAIM = Claim(
    id="first_clusters_of_many",
    section="Metastability",
    title="First clusters of very many tokens, on the circle and on the sphere",
    statement="From 10⁵ independent uniform tokens on the circle, the number of first clusters is k_max, the fastest-growing "
    "mode, or one less, because close neighbors merge while others still form. On the 2-sphere k_max is a degree l, with "
    "l(l+1) ≈ 2β. A random harmonic of that degree has l(l+1)/2√3 maxima on average, about 0.58 β, and the number of first "
    "clusters agrees with this to within a third.",
    source="Bruno, Pasqualotto, Agazzi 2024 (circle); maxima of random harmonics: Cammarota, Marinucci, Wigman 2016; "
    "the count on the sphere is measured here",
    measure=measure,
)
