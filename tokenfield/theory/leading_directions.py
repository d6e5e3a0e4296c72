"""The first phase of attention at large beta: tokens turn to the leading directions of VA, on a time scale independent of beta."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, items, number
from .._shown import shown

TIE = 1e-9  # relative difference of eigenvalues that count as equal


class Alignment(NamedTuple):
    """The directions that tokens turn to, and the rate.

    Attributes:
        basis: (d, m) orthonormal basis of the leading space: eigenvectors of VA whose eigenvalue has the largest real part.
        eigenvalue: that real part.
        gap: its distance to the next smaller real part of an eigenvalue; inf if there is none.
        rate: `gap/|Au|`, the rate at which the distance to the leading space decays, u its unit vector with the largest `|Au|`.
        frequency: `|Im|/|Au|` for the slowest other eigenvalue: the angular frequency at which tokens spiral in.
    """

    basis: np.ndarray
    eigenvalue: float
    gap: float
    rate: float
    frequency: float


def alignment(A: ArrayLike, V: ArrayLike | None = None) -> Alignment:
    """Return the leading directions to which tokens on the sphere turn first at large beta, and the rate (softmax, Post-LN).

    If tokens are spread over the sphere and `|A|` is large, a token x attends to the neighborhood of `Ax/|Ax|`, so that
    `x' = P_x VAx/|Ax|` up to terms of order `1/|A|`. In the time s with `dt = |Ax| ds` this is linear, `x ∝ e^{sVA} x_0`. So
    tokens turn to the eigenvectors of VA whose eigenvalue has the largest real part, and other components decay at the rate
    `gap/|Au|`. This rate is independent of beta, as it does not depend on the size of A (Bruno, Pasqualotto, Agazzi 2025).

    Args:
        A: (d, d) score matrix, `<Ax, y>`; symmetric or not.
        V: (d, d) value matrix, a number, or None for the identity.

    Returns:
        an `Alignment`. If every direction is leading (A = V = I, say), its basis spans R^d, and gap and rate are infinite.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.theory.alignment([[50.0, 0.0], [0.0, 30.0]])
        >>> found.basis.ravel(), round(found.rate, 12)
        (array([1., 0.]), 0.4)
    """
    A, V = as_pair(A, V)
    B = V @ A
    values, vectors = np.linalg.eig(B)
    size = np.abs(values).max()
    if np.linalg.matrix_rank(vectors, tol=1e-7) < len(B):
        raise ValueError("VA must have a basis of eigenvectors: alignment with a Jordan block is not exponential")
    leads = values.real >= values.real.max() - TIE * size
    basis = _orthonormal(np.c_[vectors[:, leads].real, vectors[:, leads].imag], int(leads.sum()))
    length = float(np.linalg.svd(A @ basis, compute_uv=False)[0])
    if leads.all():
        return Alignment(basis, float(values.real.max()), np.inf, np.inf, 0.0)
    if length <= TIE * np.abs(A).max():
        raise ValueError("A must not vanish on the leading space of VA: tokens there attend to no direction")
    rest = values[~leads]
    slowest = rest[np.argmax(rest.real)]
    gap = float(values.real.max() - slowest.real)
    return Alignment(basis, float(values.real.max()), gap, gap / length, float(abs(slowest.imag)) / length)


def alignment_path(x: ArrayLike, A: ArrayLike, V: ArrayLike | None, times: ArrayLike) -> np.ndarray:
    """Return (time, n, d) tokens under `x' = P_x VAx/|Ax|`, the limit of softmax attention for spread tokens as A grows (Post-LN).

    In this limit a token moves independently of the positions of the others, as long as they cover the sphere. The error at
    finite A is of order `1/|A|` until the tokens have contracted to a width of `|A|^{-1/2}` (see `alignment` and
    `collapse_time`).

    Args:
        x: (n, d) tokens at time 0, of any length > 0.
        A: (d, d) score matrix.
        V: (d, d) value matrix, a number, or None for the identity.
        times: increasing times >= 0.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.alignment_path([[0.6, 0.8]], [[50.0, 0.0], [0.0, 30.0]], None, [0.0, 10.0])[-1]
        array([[0.99978994, 0.02049585]])
    """
    from scipy.integrate import solve_ivp

    A, V = as_pair(A, V)
    x = np.asarray(as_float("x", x, 2))
    t = np.array([number("times", each, 0.0) for each in items("times", times, "numbers >= 0")])
    if x.shape[1] != len(A):
        raise ValueError(f"x must have {len(A)} columns, as A has, got {x.shape[1]}")
    if not len(t) or (np.diff(t) <= 0).any():
        raise ValueError(f"times must be increasing, got {shown(times)}")
    length = np.linalg.norm(x, axis=1, keepdims=True)
    if not (length > 0).all() or not (np.linalg.norm(x @ A.T, axis=1) > 0).all():
        raise ValueError("x must have no token that is zero or that A maps to zero")

    def velocity(_, y):
        y = y.reshape(x.shape)
        seen = y @ A.T
        drift = (seen / np.linalg.norm(seen, axis=1, keepdims=True)) @ V.T
        return (drift - (drift * y).sum(1, keepdims=True) * y).ravel()

    start = (x / length).ravel()
    if t[-1] == 0:
        return start.reshape(1, *x.shape)
    found = solve_ivp(velocity, (0.0, t[-1]), start, t_eval=t, method="DOP853", rtol=1e-10, atol=1e-12)
    paths = found.y.T.reshape(len(t), *x.shape)
    return paths / np.linalg.norm(paths, axis=2, keepdims=True)


def as_pair(A: ArrayLike, V: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return A and V as square matrices of the same size."""
    A = np.asarray(as_float("A", A, 2))
    if A.shape[0] != A.shape[1] or len(A) < 2:
        raise ValueError(f"A must be a square matrix of at least two rows, got shape {A.shape}")
    V = np.asarray(as_float("V", 1.0 if V is None else V, (0, 2)))
    V = V * np.eye(len(A)) if V.ndim == 0 else V
    if V.shape != A.shape:
        raise ValueError(f"V must have the shape of A, {A.shape}, got {V.shape}")
    if not np.abs(A).max() > 0:
        raise ValueError("A must not be zero: attention would not depend on the token")
    return A, V


def _orthonormal(columns: np.ndarray, m: int) -> np.ndarray:
    """Return an orthonormal basis of the m-dimensional span of columns, with the largest entry of each vector positive."""
    basis = np.linalg.svd(columns, full_matrices=False)[0][:, :m]
    return basis * np.sign(basis[np.argmax(np.abs(basis), axis=0), np.arange(m)])
