"""Random models and tokens from a seed: `draw("layers", 7)` is the same problem in every run and on every machine.

A `Case` is plain data. `build.py` turns it into tokenfield's objects, `references/` computes what should come out. The
first draws of a family repeat the structures (kernel, norm, shapes) of `PERIOD` draws with other numbers, so that one
compiled program serves many draws; later ones, in a long run, draw the structure too.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

TOTAL = 529  # draws in `make test`: the shares of the tests add up to this
KERNELS = ("softmax", "l2", "sinkhorn", "unnormalized", "linear", "relu", "sigmoid", "hardmax", "multihead")
NORMS = ("none", "post", "pre", "peri", "mix", "ngpt", "sqrt", "gain")
SHAPES = ((5, 3), (2, 2), (7, 2), (1, 3), (4, 1), (3, 6))


@dataclass(frozen=True)
class Head:
    """One head: `A` or `beta` or `beta K^T Q`; V None (identity), a number or a matrix."""

    kernel: str
    beta: float | None = None
    A: np.ndarray | None = None
    Q: np.ndarray | None = None
    K: np.ndarray | None = None
    V: np.ndarray | float | None = None
    causal: bool = False
    rule: str = "self"
    log_unit: float = 0.0


@dataclass(frozen=True)
class Case:
    """Tokens and a model, as plain data; `norm` is one of `NORMS` or "rescaled"."""

    name: str
    x: np.ndarray
    w: np.ndarray
    positions: np.ndarray | None
    heads: tuple[Head, ...]
    outputs: tuple[np.ndarray, ...] | None = None
    norm: str = "none"
    gain: np.ndarray | None = None
    tau: float = 0.5
    alpha: float = 1.0
    mlp: dict[str, Any] | None = None
    h: float = 1.0
    t1: float = 1.0

    @property
    def n(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return self.x.shape[1]


def share(count: int) -> Callable:
    """Give a test `count` of the `TOTAL` draws; it gets one `seed` at a time."""

    def mark(test: Callable) -> Callable:
        test.share = count  # type: ignore[attr-defined]
        return test

    return mark


def generator(family: str, seed: int) -> np.random.Generator:
    """Random numbers of one draw."""
    return np.random.default_rng([zlib.crc32(family.encode()), seed])


def structure(family: str, seed: int, period: int) -> tuple[int, np.random.Generator]:
    """Number of the structure of a draw and the random numbers it is made from; the first draws share a few."""
    number = seed % period if seed < TOTAL else seed
    return number, generator(family + " structure", number)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A positive number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def signed(rng: np.random.Generator, low: float, high: float) -> float:
    """As `log_uniform`, of either sign."""
    return log_uniform(rng, low, high) * float(rng.choice([-1.0, 1.0]))


def matrix(rng: np.random.Generator, d: int, size: float = 1.0) -> np.ndarray:
    """A (d, d) matrix of one of many kinds, of spectral norm of order `size`."""
    kind = rng.choice(
        ["generic", "symmetric", "definite", "negative", "singular", "skewed", "nilpotent", "rotation", "diagonal"]
    )
    m = rng.normal(size=(d, d))
    if kind == "symmetric":
        m = m + m.T
    elif kind == "definite":
        m = m @ m.T
    elif kind == "negative":
        m = -np.eye(d) * rng.uniform(0.3, 1.0)
    elif kind == "singular":
        m = np.outer(m[0], m[:, -1])
    elif kind == "skewed":
        m = np.triu(m) + 3.0 * np.triu(m, 1)
    elif kind == "nilpotent":
        m = np.triu(m, 1)
    elif kind == "rotation":
        m = np.linalg.qr(m)[0]
    elif kind == "diagonal":
        m = np.diag(rng.normal(size=d))
    norm = np.linalg.norm(m, 2)
    return m if norm == 0 else m * (size * rng.uniform(0.3, 1.0) / norm)


def weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """Equal, uneven, tiny and zero weights."""
    kind = rng.choice(["equal", "dirichlet", "zeros", "tiny", "one"], p=[0.3, 0.4, 0.12, 0.12, 0.06])
    w = rng.dirichlet(np.ones(n))
    if kind == "equal":
        w = np.full(n, 1.0 / n)
    elif kind == "zeros":
        w[rng.permutation(n)[: rng.integers(0, n)]] = 0.0
    elif kind == "tiny":
        w[rng.permutation(n)[: rng.integers(0, n)]] *= 10.0 ** -rng.uniform(3, 250)
    elif kind == "one":
        w = np.eye(n)[rng.integers(n)]
    return w / w.sum()


def tokens(rng: np.random.Generator, n: int, d: int, unit: bool) -> np.ndarray:
    """Tokens in R^d or on the unit sphere: spread, gathered, with repetitions, with opposite ones."""
    x = rng.normal(size=(n, d))
    kind = rng.choice(["spread", "gathered", "repeated", "opposite"], p=[0.7, 0.15, 0.08, 0.07])
    if kind == "gathered":
        x = x[:1] + log_uniform(rng, 1e-6, 0.3) * x
    elif kind == "repeated":
        x = x[rng.integers(0, n, n)]
    elif kind == "opposite":
        x[n // 2 :] = -x[: n - n // 2]
    if unit:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return x if unit else x * rng.uniform(0.3, 1.2)


def positions(rng: np.random.Generator, n: int) -> np.ndarray | None:
    """Positions in [0, 1] with ties, or None for the order of the index."""
    return None if rng.uniform() < 0.5 else rng.choice(np.linspace(0.0, 1.0, n + 1), n)


def head(s: np.random.Generator, rng: np.random.Generator, kernel: str, d: int, beta: float, size: float) -> Head:
    """A head: its form from `s` (which programs depend on), its numbers from `rng`."""
    form = str(s.choice(["beta", "matrices", "narrow"], p=[0.3, 0.5, 0.2]))
    value, causal = str(s.choice(["none", "number", "matrix"])), bool(s.uniform() < 0.3) and kernel != "sinkhorn"
    rule, width = str(s.choice(["self", "others"])), int(s.integers(1, d + 1))
    V = {"none": None, "number": float(rng.normal()), "matrix": matrix(rng, d)}[value]
    made = Head(kernel, V=V, causal=causal, rule=rule)
    if form == "beta" and kernel != "hardmax":
        return replace(made, beta=beta)
    if form == "narrow" or kernel == "l2":
        q, k = rng.normal(size=(2, width, d)) / np.sqrt(d)
        return replace(made, Q=q, K=k, beta=None if kernel == "hardmax" else beta)
    return replace(made, A=matrix(rng, d, size), V=matrix(rng, d))


def draw(family: str, seed: int, *, period: int, betas: tuple[float, float], norms: tuple[str, ...] = NORMS) -> Case:
    """A model and tokens.

    Args:
        family: name that the random numbers depend on.
        seed: number of the draw.
        period: number of structures among the first draws.
        betas: least and greatest |beta|, also the scale of A.
        norms: the norms to choose from.
    """
    number, s = structure(family, seed, period)
    rng = generator(family, seed)
    kernel, norm = KERNELS[number % len(KERNELS)], norms[(number + number // len(KERNELS)) % len(norms)]
    often = [0.8, 0.2, 0.0, 0.0, 0.0, 0.0] if seed < TOTAL else [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
    n, d = SHAPES[int(s.choice(len(SHAPES), p=often))]
    if norm != "none" and d == 1:
        n, d = 5, 3
    beta = log_uniform(rng, *betas) * (1.0 if rng.uniform() < 0.6 else -1.0)
    if kernel == "multihead":
        names = s.choice(["softmax", "l2", "linear", "sigmoid", "unnormalized"], 2)
        heads = tuple(head(s, rng, str(name), d, float(np.clip(beta, -5, 5)), 1.0) for name in names)
        outputs = tuple(matrix(rng, d) for _ in heads) if s.uniform() < 0.7 else None
    else:
        heads, outputs = (head(s, rng, kernel, d, beta, abs(beta)),), None
    with_mlp, with_gain = s.uniform() < 0.2, norm == "gain"
    if with_gain:
        norm = str(s.choice(["post", "pre", "peri"]))
    unit = norm in ("post", "mix", "ngpt", "sqrt")
    x = tokens(rng, n, d, unit)
    gain = None
    if with_gain:
        gain = np.full(d, rng.uniform(0.4, 1.2)) if s.uniform() < 0.4 else rng.uniform(0.4, 1.2, d)
        x = x / np.linalg.norm(x, axis=1, keepdims=True) * gain * np.sqrt(d) if unit else x
    return Case(
        f"{family} {seed}", x, weights(rng, n), positions(rng, n) if any(h.causal for h in heads) else None, heads,
        outputs, norm, gain, float(rng.uniform(0.1, 0.9)), float(rng.uniform(0.3, 1.5)),
        mlp(s, rng, d) if with_mlp else None, float(rng.uniform(0.1, 1.2)), float(rng.uniform(0.3, 1.5)),
    )  # fmt: skip


def mlp(s: np.random.Generator, rng: np.random.Generator, d: int) -> dict[str, Any]:
    """Matrices and biases of an MLP of width 4."""
    return {
        "W1": rng.normal(size=(4, d)) / np.sqrt(d), "W2": rng.normal(size=(d, 4)) / 4, "b1": rng.normal(size=4),
        "b2": rng.normal(size=d) / 2, "activation": str(s.choice(["tanh", "relu", "gelu", "gelu_tanh"])),
    }  # fmt: skip
