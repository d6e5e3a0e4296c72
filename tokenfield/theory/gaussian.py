"""Gaussian data under softmax attention without a norm: closed forms, blow-up, limits, ranks (FORMULAS §5)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, number
from .._jax import in_double
from .._shown import shown

TOLERANCE = 1e-9


def gaussian_closed_form(A: ArrayLike, V: ArrayLike | None, cov: ArrayLike, t: float) -> np.ndarray:
    """Return `Sigma(t) = Sigma_0^{1/2} (I - t Sigma_0^{1/2} M Sigma_0^{1/2})^{-1} Sigma_0^{1/2}`, `M = VA + A^T V^T`.

    For softmax attention. V must commute with M and with Sigma_0 (a number always does). Sigma(t) solves
    `Sigma' = V Sigma A Sigma + Sigma A^T Sigma V^T` up to the blow-up. Sigma_0 may be singular (FORMULAS §5).

    Args:
        A: (d, d) score matrix, or a number a for a I.
        V: (d, d) value matrix, a number, or None for the identity.
        cov: (d, d) covariance at time 0.
        t: the time, before the blow-up.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_closed_form([[0.0, 1.0], [1.0, -1.0]], None, [[0.7, 0.1], [0.1, 0.3]], t=0.5)
        array([[1.        , 0.33333333],
               [0.33333333, 0.33333333]])
    """
    t, (S, m, U) = number("t", t), _reduced(A, V, cov)
    if t * m.max(initial=0.0) >= 1:
        raise ValueError(f"t must lie before the blow-up at {1 / m.max():.8g}, got {shown(t)}")
    SU = S @ U
    return (SU / (1 - t * m)) @ SU.T


def gaussian_mean(A: ArrayLike, mean: ArrayLike, cov: ArrayLike, t: float) -> np.ndarray:
    """Return the mean `alpha(t) = e^t (I - 2t Sigma_0^{1/2} A Sigma_0^{1/2})^{-1/2} alpha_0`.

    For softmax attention with V = I and A symmetric, commuting with Sigma_0 (FORMULAS §5).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_mean([[1.0, 0.0], [0.0, -1.0]], [1.0, 1.0], [[0.2, 0.0], [0.0, 0.2]], t=0.5)
        array([1.84332642, 1.50506972])
    """
    A, cov = _matrices(A, cov)
    if not _same(A, A.T) or not _commute(A, cov):
        raise ValueError("A must be symmetric and commute with cov for this closed form: use simulate instead")
    t, (_, m, U) = number("t", t), _reduced(A, None, cov)
    if t * m.max(initial=0.0) >= 1:
        raise ValueError(f"t must lie before the blow-up at {1 / m.max():.8g}, got {shown(t)}")
    alpha = np.asarray(as_float("mean", mean, 1))
    if alpha.shape != (len(cov),):
        raise ValueError(f"mean must have shape ({len(cov)},), got {alpha.shape}")
    return math.exp(t) * U @ ((U.T @ alpha) / np.sqrt(1 - t * m))


def gaussian_blowup_time(A: ArrayLike, V: ArrayLike | None, cov: ArrayLike) -> float:
    """Return `t* = 1/lambda_max(Sigma_0^{1/2} M Sigma_0^{1/2})`, or infinity if that is not positive (FORMULAS §5).

    For softmax attention, with the conditions of `gaussian_closed_form`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_blowup_time(1.0, None, [[1.0, 0.5], [0.5, 1.0]])  # 1/3
        0.33333333333333354
    """
    _, m, _ = _reduced(A, V, cov)
    largest = float(m.max(initial=0.0))
    return math.inf if largest <= TOLERANCE * np.abs(m).max(initial=0.0) else 1 / largest


def gaussian_limit(A: ArrayLike, V: ArrayLike | None, cov: ArrayLike) -> np.ndarray:
    """Return `Sigma* = Sigma_0^{1/2} Pi Sigma_0^{1/2}`, Pi the projector on `ker(Sigma_0^{1/2} M Sigma_0^{1/2})`.

    It is the limit of Sigma(t) when M has no positive direction. For invertible Sigma_0 it equals
    `N (N^T Sigma_0^{-1} N)^{-1} N^T` with N a basis of ker M: not the projection of Sigma_0 (FORMULAS §5). L2
    attention with `K = -Q`, V = I, `A = -K^T K` has the same limit.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_limit([[-1.0, 0.0], [0.0, 0.0]], None, [[0.7, 0.1], [0.1, 0.3]])
        array([[ 1.01521630e-34, -5.38573857e-18],
               [-5.38573857e-18,  2.85714286e-01]])
    """
    S, m, U = _reduced(A, V, cov)
    scale = np.abs(m).max(initial=0.0)
    if m.max(initial=0.0) > TOLERANCE * scale:
        raise ValueError(f"there is no limit: the covariance blows up at t = {1 / m.max():.8g}")
    kernel = S @ U[:, np.abs(m) <= TOLERANCE * scale]
    return kernel @ kernel.T


def gaussian_rank_bound(A: ArrayLike, tol: float = 1e-9) -> int:
    """Return an upper bound on the rank of stationary covariances Sigma* of softmax attention with V = I (FORMULAS §5).

    `rank Sigma* <= dim ker(A + A^T) + min(#positive, #negative eigenvalues of A + A^T)`: at most floor(d/2) if A + A^T is
    invertible. Eigenvalues below `tol` times the largest count as 0.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_rank_bound([[1.0, 0.0], [0.0, -1.0]])
        1
    """
    A = np.asarray(as_float("A", A, 2))
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"A must be a square matrix, got shape {A.shape}")
    eigenvalues = np.linalg.eigvalsh(A + A.T)
    small = tol * np.abs(eigenvalues).max(initial=0.0)
    positive, negative = int((eigenvalues > small).sum()), int((eigenvalues < -small).sum())
    return len(A) - positive - negative + min(positive, negative)


@in_double
def gaussian_stationarity(attention, cov: ArrayLike, mean: ArrayLike | None = None, t: float = 0.0) -> float:
    """Return `|V B Sigma + (V B Sigma)^T|`, the Frobenius norm of `Sigma'`: it is 0 only at stationary covariances.

    For every attention under which Gaussians stay Gaussian: Softmax, L2, Sinkhorn, Linear, MultiHead (FORMULAS §5).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_stationarity(tkf.Sinkhorn(A=[[0.0, 1.0], [-1.0, 0.0]]), [[1.0, 0.0], [0.0, 1.0]])
        0.0
    """
    import jax.numpy as jnp

    from ..flows.affine import attend
    from ..flows.matrices import root
    from ..states import Gaussian

    state = Gaussian(mean, cov)  # type: ignore[arg-type]  # which checks them
    L = root(state.cov)
    flux = np.asarray(attend(attention, jnp.asarray(t, float), state.mean, L).on_root @ L.T)
    return float(np.linalg.norm(flux + flux.T))


def _reduced(A: ArrayLike, V: ArrayLike | None, cov: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the square root S of cov, and the eigenvalues and eigenvectors of `S M S`."""
    A, cov = _matrices(A, cov)
    d = len(cov)
    V = np.asarray(as_float("V", 1.0 if V is None else V, (0, 2)))
    V = V * np.eye(d) if V.ndim == 0 else V
    if V.shape != (d, d):
        raise ValueError(f"V must have shape ({d}, {d}) or be a number, got {V.shape}")
    M = V @ A + A.T @ V.T
    if not (_commute(V, M) and _commute(V, cov)):
        raise ValueError("V must commute with VA + A^T V^T and with cov for this closed form: use simulate instead")
    eigenvalues, vectors = np.linalg.eigh(cov)
    S = (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T
    m, U = np.linalg.eigh(S @ M @ S)
    return S, m, U


def _matrices(A: ArrayLike, cov: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    from ..states import Gaussian

    cov = np.asarray(Gaussian(None, cov).cov)  # type: ignore[arg-type]
    A = np.asarray(as_float("A", A, (0, 2)))
    A = A * np.eye(len(cov)) if A.ndim == 0 else A
    if A.shape != cov.shape:
        raise ValueError(f"A must have shape {cov.shape} to match cov, got {A.shape}")
    return A, cov


def _same(X: np.ndarray, Y: np.ndarray) -> bool:
    return bool(np.abs(X - Y).max() <= TOLERANCE * (np.abs(X).max() + np.abs(Y).max()))


def _commute(X: np.ndarray, Y: np.ndarray) -> bool:
    return bool(np.linalg.norm(X @ Y - Y @ X) <= TOLERANCE * np.linalg.norm(X) * np.linalg.norm(Y))
