"""The score gap of A: how much higher than itself a token can score another token, both in the unit ball."""

import numpy as np
from scipy.optimize import brentq

from .._check import as_float


def score_gap(A: np.ndarray, across: np.ndarray | None = None) -> tuple[float, np.ndarray]:
    """Return `g = max_{|u|<=1} (|Au| - <u,Au>)` and a maximizer u, for any real (d, d) matrix A (FORMULAS §6).

    `|Au| = min_{t>0} (t|Au|^2 + 1/t)/2` turns this into a problem that is concave in `uu^T` and convex in t, so

    `g = min_{t>0} { 1/(2t) + lambda_max^+( (t A^T A - A - A^T)/2 ) }`,

    the minimum of a convex function of one variable. There is no relaxation gap: at the optimal t the maximizer lies in the
    leading eigenspace and has `|Au| = 1/t`, a single equation, which has a solution on the connected sphere of eigenvectors.
    For A symmetric with extreme eigenvalues `-a <= 0 <= b` (0 for a sign that does not occur), `g = 2a` if `b <= 3a`, and
    `(b-a)/4 + ab/(b-a)` if not: at least the eigenvector cases `2a` and `b/4`.

    Args:
        A: (d, d) score matrix.
        across: (d,) vector v. Among several maximizers, one with `<Au, v> = 0` is chosen if there is one.

    Example:
        >>> from tokenfield.lipschitz import score_gap
        >>> score_gap([[-1.0, 0.0], [0.0, 0.5]])[0]
        2.0
    """
    A = np.asarray(as_float("A", A, 2))
    if A.shape[0] != A.shape[1] or not A.size:
        raise ValueError(f"A must be a square matrix, got shape {A.shape}")
    d, size = len(A), np.linalg.norm(A, 2)
    if size == 0:
        return 0.0, np.eye(d)[0]
    A = A / size
    square, symmetric = A.T @ A, (A + A.T) / 2

    def top(t: float) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.eigh(t / 2 * square - symmetric)

    def slope(t: float) -> float:
        """Return a subgradient of the convex function, times 2."""
        values, vectors = top(t)
        u = vectors[:, -1]
        return (float(u @ square @ u) if values[-1] > 0 else 0.0) - 1 / t**2

    # |A| = 1 has g >= 1/4 (u half the leading singular vector) and g <= 2|Au|, so 1/8 <= |Au| = 1/t <= 1.
    t = 1.0 if slope(1.0) >= 0 else brentq(slope, 1.0, 9.0, xtol=1e-15, rtol=1e-15)
    values, vectors = top(t)
    space = vectors[:, values > values[-1] - 1e-9]
    candidates = _on_sphere(space, square, 1 / t**2)
    if across is not None and space.shape[1] > 1:
        candidates += _on_sphere(_orthogonal(space, A.T @ across), square, 1 / t**2)
    points = [_scaled(A, u) for u in candidates]
    gaps = [np.linalg.norm(A @ u) - u @ A @ u for u in points]
    best = max(gaps)
    tied = [u for u, g in zip(points, gaps, strict=True) if g > best - 1e-12]
    if across is not None:
        tied.sort(key=lambda u: abs(A @ u @ across))
    return float(size * best), tied[0]


def _on_sphere(space: np.ndarray, square: np.ndarray, level: float) -> list[np.ndarray]:
    """Return unit vectors of `space` with `|Au|^2` as close to `level` as possible, on arcs between its extreme values."""
    if space.shape[1] == 0:
        return []
    values, vectors = np.linalg.eigh(space.T @ square @ space)
    if values[-1] <= level:
        return [space @ vectors[:, -1]]
    if values[0] >= level:
        return [space @ vectors[:, 0], space @ vectors[:, -1]]
    s = np.sqrt((level - values[0]) / (values[-1] - values[0]))
    c = np.sqrt((values[-1] - level) / (values[-1] - values[0]))
    return [space @ (c * vectors[:, 0] + sign * s * vectors[:, -1]) for sign in (1, -1)]


def _orthogonal(space: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the vectors of `space` orthogonal to v."""
    inside = space.T @ v
    if np.linalg.norm(inside) < 1e-14:
        return space
    return space @ np.linalg.qr(np.column_stack([inside, np.eye(len(inside))]))[0][:, 1 : len(inside)]


def _scaled(A: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the best multiple r u, r <= 1: `r|Au| - r^2 <u,Au>` is largest at `r = |Au| / (2<u,Au>)`."""
    length, own = np.linalg.norm(A @ u), u @ A @ u
    return u * (length / (2 * own) if 2 * own > length else 1.0)
