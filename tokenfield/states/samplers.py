"""Samplers of initial tokens. The same seed gives the same tokens on every machine."""

import jax.numpy as jnp
import numpy as np

from .._check import as_float, count, generator, number, positive
from .._kinds import named
from .._memory import refuse_large
from .._shown import shown
from .._types import Matrix, Number, Vector
from ..spaces import AbstractSpace
from .tokens import Tokens, only_tokens

COPIES = 3  # arrays held at once: drawn, normalized, and returned


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@named("start", "sphere")
def uniform_sphere(n: int, d: int, seed: int = 0) -> Tokens:
    """Return n independent tokens, uniform on the unit sphere of R^d.

    Args:
        n: number of tokens.
        d: their dimension.
        seed: random seed.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.uniform_sphere(n=256, d=3, seed=0)
        Tokens(n=256, d=3)
    """
    return Tokens(sphere_points(count("n", n), count("d", d, 2), seed))


def sphere_points(n: int, d: int, seed: int) -> np.ndarray:
    """Return the tokens of `uniform_sphere` as a plain array: much faster for many small states."""
    refuse_large("n, d", n, d, copies=COPIES)
    x = generator(seed).standard_normal((n, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return x


@named("start", "space")
def tokens_in(space: AbstractSpace, n: int, d: int, seed: int = 0) -> Tokens:
    """Return n independent tokens in a space in R^d, uniform if its volume is finite (otherwise see the space for the law).

    Args:
        space: the space, such as `Torus()`.
        n: number of tokens.
        d: dimension of the R^d around it.
        seed: random seed.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.tokens_in(tkf.Torus(), n=64, d=4, seed=0)
        Tokens(n=64, d=4, space=Torus())
    """
    if not isinstance(space, AbstractSpace):
        raise ValueError(f"space must be a space such as Torus(), got {shown(space)}")
    n, d = count("n", n), count("d", d)
    space.check(d)
    refuse_large("n, d", n, d, copies=COPIES)
    return Tokens(space.sample(jnp.asarray(generator(seed).standard_normal((n, d)))), space=space)


@named("start", "gaussian")
def gaussian_tokens(
    n: int, d: int | None = None, seed: int = 0, mean: Vector | None = None, cov: Number | Matrix | None = None
) -> Tokens:
    """Return n independent Gaussian tokens in R^d; standard normal by default.

    Args:
        n: number of tokens.
        d: dimension; optional if `mean` or `cov` is given.
        mean: (d,) mean.
        cov: (d, d) covariance, or a number c for c I.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.gaussian_tokens(n=100, d=2, seed=0, cov=0.25)
        Tokens(n=100, d=2)
    """
    n = count("n", n)
    mean = None if mean is None else np.asarray(as_float("mean", mean, 1))
    cov = None if cov is None else np.asarray(as_float("cov", cov, (0, 2)))
    if d is None and mean is None and (cov is None or cov.ndim == 0):
        raise ValueError("d must be given when neither mean nor a covariance matrix is")
    if d is None:
        d = len(cov if mean is None else mean)  # type: ignore[arg-type]
    d = count("d", d)
    refuse_large("n, d", n + d, d, copies=COPIES)
    mean = np.zeros(d) if mean is None else mean
    cov = np.eye(d) if cov is None else cov * np.eye(d) if cov.ndim == 0 else cov
    if mean.shape != (d,) or cov.shape != (d, d):
        raise ValueError(f"mean and cov must have shapes ({d},) and ({d}, {d}), got {mean.shape} and {cov.shape}")
    eigenvalues, vectors = np.linalg.eigh((cov + cov.T) / 2)
    if eigenvalues[0] < -1e-12 * max(eigenvalues[-1], 0) or not np.allclose(cov, cov.T):
        raise ValueError(f"cov must be symmetric and non-negative, got smallest eigenvalue {eigenvalues[0]:.3g}")
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T
    return Tokens(mean + generator(seed).standard_normal((n, d)) @ root)


@named("start", "hemisphere")
def hemisphere(n: int, d: int, seed: int = 0, margin: float = 0.0) -> Tokens:
    """Return n independent tokens, uniform on the part `x_1 > margin` of the unit sphere of R^d.

    Args:
        n: number of tokens.
        d: their dimension.
        seed: random seed.
        margin: in [0, 1).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.hemisphere(n=50, d=3, seed=0)
        Tokens(n=50, d=3)
    """
    n, d = count("n", n), count("d", d, 2)
    if number("margin", margin, 0, 1) == 1:
        raise ValueError(f"margin must lie in [0, 1), got {shown(margin)}")
    refuse_large("n, d", 4 * n, d, copies=COPIES)
    rng, found = generator(seed), np.empty((0, d))
    for _ in range(10_000):
        x = _unit(rng.standard_normal((4 * n, d)))
        x[:, 0] = np.abs(x[:, 0])
        found = np.concatenate([found, x[x[:, 0] > margin]])
        if len(found) >= n:
            return Tokens(found[:n])
    raise ValueError(f"margin {shown(margin)} leaves too small a cap in dimension {d}")


@named("start", "equiangular")
def equiangular_tokens(rho: float, n: int, d: int | None = None, radius: float = 1.0) -> Tokens:
    """Return n tokens of equal length with all pairwise cosines equal to rho, in R^d (d >= n; d = n by default).

    Args:
        rho: the common cosine, in [-1/(n-1), 1].
        n: number of tokens.
        d: their dimension, at least n; n by default.
        radius: their length.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.equiangular_tokens(rho=0.0, n=32)
        Tokens(n=32, d=32)
    """
    n = count("n", n)
    d = n if d is None else count("d", d)
    least = -1 / (n - 1) if n > 1 else -1.0
    rho = number("rho", rho)
    if not least <= rho <= 1:
        raise ValueError(f"rho must lie in [-1/(n-1), 1] = [{least:.6g}, 1] for n = {n}, got {shown(rho)}")
    if d < n:
        raise ValueError(f"d must be at least n = {n}, got {d}")
    refuse_large("n, d", n, d, copies=COPIES)
    x = np.zeros((n, d))
    x[:, :n] = gram_root(rho, n)
    return Tokens(positive("radius", radius) * _unit(x))


def gram_root(rho: float, n: int) -> np.ndarray:
    """Return the symmetric root of the matrix with 1 on the diagonal and rho elsewhere: `a I + b 11^T`."""
    a, on_mean = np.sqrt(1 - rho), np.sqrt(max(1 + (n - 1) * rho, 0.0))
    return a * np.eye(n) + (on_mean - a) / n


@named("start", "clusters")
def separated_clusters(n: int, d: int, k: int, spread: float = 0.1, seed: int = 0) -> Tokens:
    """Return n tokens on the unit sphere in k tight groups of equal size (to within one) around separated centers.

    The centers are the best separated of 200 random k-tuples; a token is a center plus a Gaussian with standard
    deviation `spread` in each coordinate, normalized.

    Args:
        n: number of tokens.
        d: their dimension.
        k: number of groups.
        spread: standard deviation of each coordinate about a center.
        seed: random seed.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.separated_clusters(n=60, d=3, k=4, spread=0.05, seed=0)
        Tokens(n=60, d=3)
    """
    n, d, k = count("n", n), count("d", d, 2), count("k", k)
    if k > n:
        raise ValueError(f"k must be at most n = {n}, got {k}")
    refuse_large("n, d, k", max(n, 200 * k), max(d, k), copies=COPIES)
    rng = generator(seed)
    tries = _unit(rng.standard_normal((200, k, d)))
    cosines = np.einsum("aid,ajd->aij", tries, tries) - 3 * np.eye(k)
    centers = tries[np.argmin(cosines.max(axis=(1, 2)))]
    labels = np.arange(n) * k // n
    noise = positive("spread", spread, or_zero=True) * rng.standard_normal((n, d))
    return Tokens(_unit(centers[labels] + noise))


@named("start", "circle")
def circle_tokens(angles: Vector) -> Tokens:
    """Return tokens on the unit circle at the given angles.

    Args:
        angles: (n,) angles in radians.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.circle_tokens([0.0, 0.5, 2.0])
        Tokens(n=3, d=2)
    """
    angles = np.asarray(as_float("angles", angles, 1))
    return Tokens(np.stack([np.cos(angles), np.sin(angles)], axis=1))


def perturbed(tokens: Tokens, size: float = 1e-6, seed: int = 0) -> Tokens:
    """Return tokens perturbed by Gaussians of standard deviation `size` in each coordinate, with unchanged lengths.

    Balanced states (antipodal tokens, regular polygons) are stationary but unstable: a perturbation leaves them.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.perturbed(tkf.circle_tokens([0.0, 2.0944, 4.1888]), size=1e-6, seed=0)
        Tokens(n=3, d=2)
    """
    x = np.asarray(only_tokens("perturbed", tokens).x)
    moved = x + positive("size", size) * generator(seed).standard_normal(x.shape)
    return Tokens(_unit(moved) * np.linalg.norm(x, axis=1, keepdims=True), tokens.weights, tokens.positions)
