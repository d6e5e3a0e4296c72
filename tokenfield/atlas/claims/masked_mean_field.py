"""Masked attention on measures: positions are fixed, coinciding tokens merge, and n tokens converge to a continuum like 1/n."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, close

D, T, COARSE = 3, 1.0, 8


def final(x, A, weights=None, positions=None) -> np.ndarray:
    model, state = tkf.Transformer(tkf.Softmax(A=A, causal=True)), tkf.Tokens(x, weights, positions)
    return np.asarray(tkf.simulate(model, state, T, save_at=2, rtol=1e-13, atol=1e-14, progress=False).final.x)


def sampled(curve, A, n: int, grid: int) -> np.ndarray:
    """Return the tokens at s = j/8 at time T, of n tokens that start at s = i/n on a curve.

    The other points of the grid have weight 0, so they do not influence the rest: arrays of one shape serve every n.
    """
    index = np.arange(1, grid + 1)
    weights = np.where(index % (grid // n) == 0, 1 / n, 0.0)
    return final(curve(index / grid), A, weights, index / grid)[grid // COARSE - 1 :: grid // COARSE]


def errors(a, b) -> np.ndarray:
    return np.array([np.linalg.norm(x - y, axis=1).max() for x, y in zip(a, b, strict=True)])


def measure(quick: bool) -> Evidence:
    sizes, rng = 2 ** np.arange(3, 8 if quick else 11), np.random.default_rng(0)
    grid = int(sizes[-1])
    A, x = rng.standard_normal((D, D)), rng.standard_normal((grid, D))
    lower = np.tril(np.exp(x @ A.T @ x.T))
    matrix = tkf.attention_matrix(tkf.Tokens(x), tkf.Softmax(A=A, causal=True))
    mask = np.abs(matrix - lower / lower.sum(axis=1, keepdims=True)).max()
    bounds = np.array([0, grid // 8, grid // 2, 3 * grid // 4, grid])
    block = np.searchsorted(bounds, np.arange(grid), side="right") - 1
    places, at = x[block], bounds[block + 1] / grid
    weights = np.where(np.isin(np.arange(grid), bounds[:-1]), (np.diff(bounds) / grid)[block], 0.0)
    together, weighted, apart = final(places, A, None, at), final(places, A, weights, at), final(places, A)
    parted = np.linalg.norm(apart[bounds[1:] - 1] - apart[bounds[:-1]], axis=1).max()

    powers = lambda s: np.stack([0 * s + 1, s, s**2], axis=1)  # noqa: E731
    spiral = lambda s: np.stack([np.cos(6 * s), np.sin(6 * s), s], axis=1)  # noqa: E731
    exact = powers(np.arange(1, COARSE + 1) / COARSE) * np.exp(T / (1 + np.arange(D)))
    flat = [sampled(powers, 0 * A, n, grid) for n in sizes]
    curved = [sampled(spiral, A, n, grid) for n in sizes]
    to_exact, to_next = errors(flat, [exact] * len(sizes)), errors(curved[:-1], curved[1:])
    better, merged = errors([2 * flat[-1] - flat[-2]], [exact])[0], np.abs(together - weighted).max()
    order = lambda error: np.log2(error[-2] / error[-1])  # noqa: E731
    checks = (
        at_most("s_i = i/n: attention matrix against a lower triangular softmax", 1e-13, mask),
        at_most("tokens with equal s and equal x against weighted tokens", 1e-12, merged),
        at_least("equal x, but s = i/n: largest distance within a block", 1e-2, parted),
        close("A = 0, against the exact continuum: order in 1/n", 1.0, order(to_exact), atol=0.05),
        at_most("A = 0: error of the extrapolation 2x_2n − x_n / error of x_2n", 0.05, better / to_exact[-1]),
        close("random A, n against 2n tokens: order in 1/n", 1.0, order(to_next), atol=0.05),
    )
    caption = "Largest distance over s = 1/8, …, 1 at t = 1 from n tokens on a curve to the continuum, or to 2n tokens."
    return Evidence(checks, draw(sizes, to_exact, to_next), caption)


def draw(sizes, to_exact, to_next):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(xlabel="tokens $n$", ylabel="largest distance", xscale="log", yscale="log")
    axes.plot(sizes, to_exact, "o", color="#0072B2", label="$A = 0$, to the exact continuum")
    axes.plot(sizes[:-1], to_next, "s", color="#D55E00", label="random $A$, to $2n$ tokens")
    axes.plot(sizes, to_exact[-1] * sizes[-1] / sizes, color="#0072B2", lw=0.8, label="slope $-1$")
    axes.plot(sizes, to_next[-1] * sizes[-2] / sizes, color="#D55E00", lw=0.8)
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="masked_mean_field",
    section="Causal attention",
    title="Masked attention has a mean field",
    statement="Let the measure live on [0, 1] × R^d. The position s of a token never changes, and a token at s attends to "
    "those at τ ≤ s, with weights normalized over them. n tokens at s_i = i/n give causal attention; tokens with the same s and "
    "the same x act as one weighted token; and n tokens sampled from a continuous curve x(s) converge to a continuum with "
    "error O(1/n).",
    source="V. Castin, Mean-field Transformer dynamics (talk, Hamburg 2025), part V; Castin, Ablin, Peyré, How smooth "
    "is attention?, ICML 2024; the order and the solution at A = 0, s^p ↦ s^p e^{t/(p+1)}, are derived here",
    measure=measure,
)
