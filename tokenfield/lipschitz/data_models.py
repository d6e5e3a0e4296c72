"""Random tokens of several kinds, with coordinates of variance 1, for experiments on the effect of the number of tokens."""

from collections.abc import Callable

import numpy as np

from .._check import count, generator, number, positive
from .._shown import nearest, shown
from ..states import Tokens

Sampler = Callable[[int, int], Tokens]


def data_model(
    kind: str,
    d: int,
    *,
    scale: float = 1.0,
    rank: int = 2,
    clusters: int = 4,
    spread: float = 0.2,
    correlation: float = 0.9,
    freedom: float = 3.0,
) -> Sampler:
    """Return a sampler `(n, seed) -> Tokens` of n tokens in R^d with `E |x|^2 = scale^2 d`.

    - "sphere": uniform on the sphere of radius `scale sqrt(d)`;
    - "gaussian": independent standard normal;
    - "low_rank": Gaussian in a random subspace of dimension `rank`;
    - "clustered": tokens around `clusters` Gaussian centers, with standard deviation `spread`, in [0, 1], in each coordinate;
    - "correlated": a stationary sequence `x_{i+1} = c x_i + sqrt(1-c^2) g_i`, c the `correlation`;
    - "heavy_tailed": Student's t with `freedom` > 2 degrees of freedom, Gaussian vectors divided by chi.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.lipschitz.data_model("correlated", d=8, correlation=0.9)(100, seed=0)
        Tokens(n=100, d=8)
    """
    d, scale = count("d", d), positive("scale", scale)
    rank, clusters = count("rank", rank), count("clusters", clusters)
    if rank > d:
        raise ValueError(f"rank must be at most d = {d}, got {rank}")
    spread, correlation = number("spread", spread, 0, 1), number("correlation", correlation)
    if not -1 < correlation < 1:
        raise ValueError(f"correlation must lie in (-1, 1), got {shown(correlation)}")
    if not positive("freedom", freedom) > 2:
        raise ValueError(f"freedom must be > 2 for a finite variance, got {shown(freedom)}")

    def sphere(n: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal((n, d))
        return np.sqrt(d) * x / np.linalg.norm(x, axis=1, keepdims=True)

    def gaussian(n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d))

    def low_rank(n: int, rng: np.random.Generator) -> np.ndarray:
        basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
        return np.sqrt(d / rank) * rng.standard_normal((n, rank)) @ basis.T

    def clustered(n: int, rng: np.random.Generator) -> np.ndarray:
        centers = rng.standard_normal((clusters, d))[rng.integers(clusters, size=n)]
        return np.sqrt(1 - spread**2) * centers + spread * rng.standard_normal((n, d))

    def correlated(n: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal((n, d))
        for i in range(1, n):
            x[i] = correlation * x[i - 1] + np.sqrt(1 - correlation**2) * x[i]
        return x

    def heavy_tailed(n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((n, d)) * np.sqrt((freedom - 2) / rng.chisquare(freedom, (n, 1)))

    kinds = {draw.__name__: draw for draw in (sphere, gaussian, low_rank, clustered, correlated, heavy_tailed)}
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {shown(kind)}{nearest(kind, kinds)}")

    def sample(n: int, seed: int = 0) -> Tokens:
        return Tokens(scale * kinds[kind](count("n", n), generator(seed)))

    return sample
