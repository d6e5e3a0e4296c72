"""Isotropic flows stay in the span of the tokens: n tokens in R^d with d > n need only n coordinates."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from ..states import Tokens

NEAR = 0.3  # rounding errors of L grow with the inverse square of this


def coordinates(tokens: Tokens) -> tuple[Tokens, np.ndarray]:
    """Return tokens in an orthonormal basis of their span, and that basis: `x = coordinates @ basis`.

    Example:
        >>> import tokenfield as tkf
        >>> small, basis = coordinates(tkf.uniform_sphere(n=32, d=1024))
    """
    small, basis = span_coordinates(np.asarray(tokens.x))
    return Tokens(jnp.asarray(small, float), tokens.weights, tokens.positions), basis()


def span_coordinates(x: np.ndarray) -> tuple[np.ndarray, Callable[[], np.ndarray]]:
    """Return the same for the rows of a matrix; the basis is computed only when it is needed.

    `x x^T = L L^T` is cheap, and as accurate as QR when no token lies near the span of those before it.
    """
    lower = _cholesky(x @ x.T)
    if lower is not None and (np.diag(lower) > NEAR * np.linalg.norm(lower, axis=1)).all():
        return lower, lambda: _solved(lower, x)
    basis, triangular = np.linalg.qr(x.T)
    return triangular.T, lambda: basis.T


def _solved(lower: np.ndarray, x: np.ndarray) -> np.ndarray:
    from scipy.linalg import solve_triangular

    return solve_triangular(lower, x, lower=True)


def _cholesky(gram: np.ndarray) -> np.ndarray | None:
    try:
        return np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
