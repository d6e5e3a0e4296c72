"""Bounds on the Lipschitz constant of attention, tested on random and on worst-case tokens."""

import numpy as np

import tokenfield as tkf
from tokenfield.lipschitz import adversarial, bounds, data_bounds, local

from ..claim import Claim, Evidence, at_least, at_most, close, equal

EXAMPLE, R = np.diag([-1.0, 0.5]), 1.5


def in_ball(rng, n: int, d: int, radius: float) -> np.ndarray:
    """Return n tokens in the ball: on its boundary, inside it, or in two opposite groups."""
    x, kind = rng.standard_normal((n, d)), rng.integers(3)
    if kind == 0:
        x = np.outer(rng.choice([-1.0, 1.0], n, p=[0.2, 0.8]), x[0]) + 0.1 * x
    lengths = rng.uniform(0, 1, (n, 1)) ** (1 / d) if kind == 1 else 1.0
    return radius * lengths * x / np.linalg.norm(x, axis=1, keepdims=True)


def random_inputs(n: int, d: int, count: int) -> np.ndarray:
    """Return (count, 4) local constants over four bounds, for random A, V, R and tokens, half of them masked."""
    used = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        A, V = 10 ** rng.uniform(-1, 0.5) * rng.standard_normal((d, d)), rng.standard_normal((d, d))
        radius = rng.uniform(0.3, 2)
        attention, x = tkf.Softmax(A=A, V=V, causal=seed % 2 == 1), in_ball(rng, n, d, radius)
        ball, own = bounds(A, V, radius, n), data_bounds(attention, x)
        used.append(local(attention, x).constant / np.array([ball.upper, ball.sharp_upper, own.data, own.sharp_data]))
    return np.array(used)


def attaining(n: int) -> np.ndarray:
    """Return the explicit tokens: the first at -R u, the others at R u."""
    return R * np.array([[-1.0, 0.0]] + (n - 1) * [[1.0, 0.0]])


def measure(quick: bool) -> Evidence:
    sizes = [(5, 2)] if quick else [(5, 2), (12, 3), (40, 8)]
    used = np.concatenate([random_inputs(*size, 60 if quick else 200) for size in sizes])
    found, worst = bounds(EXAMPLE, None, R, 5), used.max(0)
    free, masked = (tkf.Softmax(A=EXAMPLE, V=np.eye(2), causal=causal) for causal in (False, True))
    lengths = [5] if quick else [2, 5, 20, 80, 320]
    explicit = {n: local(free, attaining(n)).constant for n in lengths}
    far = bounds(-100.0, None, 1.0, 128_000)
    checks = [
        equal("violations of four upper bounds by random A, V, R and tokens, masked and not", 0, int((used > 1).sum())),
        at_most("random inputs: largest constant / √3|V|(|A|²R⁴(4n+1) + n)^{1/2}", 1.0, worst[0]),
        at_most("random inputs: largest constant / |V|(√n(1 + |A|R²) + |A|R²)", 1.0, worst[1]),
        at_most("random inputs: largest constant / its data-dependent bound", 1.0, worst[3]),
        close("n = 5, A = diag(−1, ½), R = 3/2, the explicit tokens", 2.34185, explicit[5], atol=5e-6),
        close("the same, masked", 2.41953, local(masked, attaining(5)).constant, atol=5e-6),
        close("the same tokens: lower bound", 1.91491, found.lower, atol=5e-6),
        close("the same tokens: upper bound", 18.274, found.upper, atol=5e-4),
        at_least(
            "|A|R² = 100, n = 128 000: log₁₀ of the ratio mean-field bound / upper bound",
            80.0,
            far.log_mean_field / np.log(10) - np.log10(far.upper),
        ),
    ]
    worst_found = None
    if not quick:
        worst_found = adversarial(free, 5, R).constant
        checks.append(
            at_least("worst tokens found by a search, n = 5: constant / lower bound", 1.0, worst_found / found.lower)
        )
        checks.append(at_most("the same: constant / upper bound", 1.0, worst_found / found.upper))
    return Evidence(tuple(checks), draw(explicit, worst_found), CAPTION)


CAPTION = (
    "A = diag(−1, ½), R = 3/2. Between the lower and the upper bounds: the local constant at the explicit tokens and, in "
    "the full experiment, the largest one found for n = 5. The mean-field bound does not depend on n."
)


def draw(explicit: dict[int, float], worst: float | None):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="number of tokens n", ylabel="Lipschitz constant", xscale="log", yscale="log")
    n = np.unique(np.geomspace(2, 1e5, 60).astype(int))
    made = [bounds(EXAMPLE, None, R, int(k)) for k in n]
    axes.plot(n, [b.mean_field for b in made], color="#009E73", label="mean-field bound")
    axes.plot(n, [b.upper for b in made], "--", color="black", lw=1, label=r"upper bound, $\sqrt{3}(\ldots)^{1/2}$")
    axes.plot(n, [b.sharp_upper for b in made], color="black", lw=1, label=r"upper bound, $\sqrt{n}(1+|A|R^2)+|A|R^2$")
    axes.plot(n, [b.lower for b in made], color="#0072B2", label="lower bound")
    axes.plot(list(explicit), list(explicit.values()), "o", color="#0072B2", ms=4, label="explicit tokens")
    if worst is not None:
        axes.plot([5], [worst], "*", color="#D55E00", ms=9, label="found by a search")
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    return figure


CLAIM = Claim(
    id="lipschitz_bounds",
    section="Lipschitz constants",
    title="Upper and lower bounds on the Lipschitz constant of attention",
    statement="For n tokens in the ball of radius R, masked or not, the Lipschitz constant of softmax attention is at most "
    "√3|V|(|A|²R⁴(4n+1) + n)^{1/2}, and also at most |V|(√n(1 + |A|R²) + |A|R²). For V = I it is at least "
    "√(n−1)/(1 + (n−1)e^{−R²g}), g = max (|Au| − <u,Au>) over |u| ≤ 1, by explicit tokens. The mean-field bound, "
    "e^{2|A|R²}|V|(1 + 3|A|R²), does not depend on n, but is far above the other two for n and |A|R² as in practice.",
    source="Castin, Ablin, Peyré, How smooth is attention?, 2024; g, the second upper bound and the mean-field constants "
    "derived here",
    measure=measure,
)
