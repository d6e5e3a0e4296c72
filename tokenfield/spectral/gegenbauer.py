"""Functions of `t = <x, e>` on the sphere: orthonormal Gegenbauer polynomials and Gauss quadrature."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Quadrature(NamedTuple):
    """Nodes and weights for the law of `<x, e>`, x uniform on the sphere of R^d (the weights sum to 1)."""

    t: np.ndarray
    weights: np.ndarray


def jacobi(d: int, count: int, dtype: type = float) -> np.ndarray:
    """Return `b_1, …, b_count` in `t p_l = b_{l+1} p_{l+1} + b_l p_{l-1}`, p_l orthonormal for the law of t."""
    k: np.ndarray = np.arange(1, count + 1).astype(dtype)
    if d == 2:
        return np.where(k == 1, np.sqrt(0.5 * k**0), 0.5 * k**0)
    return np.sqrt(k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4)))


@lru_cache(maxsize=64)
def precise(nodes: int, d: int) -> Quadrature:
    """Return `gauss` in extended precision, if the machine supports it.

    Nodes are eigenvalues of the Jacobi matrix (Golub–Welsch), refined by Newton's method; weights are `1/sum_l p_l^2`.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    if d == 2:
        half = np.arange(nodes)[::-1].astype(np.longdouble) + 0.5
        return Quadrature(
            np.cos(half * (np.arccos(np.longdouble(-1)) / nodes)), np.full(nodes, np.longdouble(1) / nodes)
        )
    b = jacobi(d, nodes, np.longdouble)
    t = eigvalsh_tridiagonal(np.zeros(nodes), b[:-1].astype(float)).astype(np.longdouble)
    t = (t - t[::-1]) / 2
    for _ in range(2):
        value, before, slope, slope_before = np.ones_like(t), np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
        squares = np.ones_like(t)
        for k in range(nodes):  # from degree k to k + 1
            low = b[k - 1] if k else 0
            new, new_slope = (t * value - low * before) / b[k], (value + t * slope - low * slope_before) / b[k]
            value, before, slope, slope_before = new, value, new_slope, slope
            squares += value**2 if k + 1 < nodes else 0
        t = t - value / slope
    weights = 1 / squares
    weights = (weights + weights[::-1]) / 2
    return Quadrature((t - t[::-1]) / 2, weights / weights.sum())


@lru_cache(maxsize=64)
def gauss(nodes: int, d: int) -> Quadrature:
    """Return the Gauss quadrature for the law of `<x, e>`, exact for polynomials of degree `2 nodes - 1`, correct to rounding."""
    return Quadrature(*(part.astype(float) for part in precise(nodes, d)))


@lru_cache(maxsize=12)
def basis(nodes: int, d: int) -> np.ndarray:
    """Return `p_0 … p_{nodes-1}` at the nodes of `gauss`, (node, degree), correct to rounding.

    They are orthonormal to rounding under the quadrature only if they are evaluated before the nodes are rounded.
    """
    if d == 2:  # sqrt(2) cos(l theta), without the loss of digits of the recurrence near |t| = 1
        k = np.arange(nodes)
        angle = (2 * k[::-1, None] + 1) * k % (4 * nodes)  # l theta in units of pi/(2 nodes)
        return np.sqrt(np.where(k == 0, 1, 2)) * np.cos(angle * (np.pi / (2 * nodes)))
    with np.errstate(over="ignore"):
        return polynomials(precise(nodes, d).t, nodes, d)[0].astype(float)


def polynomials(t: np.ndarray, count: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `p_0 … p_{count-1}` and their derivatives at t, orthonormal for the law of `<x, e>`: two (len(t), count) arrays."""
    b = jacobi(d, count + 1, t.dtype.type)
    values, slopes = np.zeros((2, len(t), count + 1), t.dtype)
    values[:, 0] = 1
    with np.errstate(over="ignore", invalid="ignore"):  # in very high dimension; the caller checks
        for k in range(count):
            before, slope = (b[k - 1] * values[:, k - 1], b[k - 1] * slopes[:, k - 1]) if k else (0.0, 0.0)
            values[:, k + 1] = (t * values[:, k] - before) / b[k]
            slopes[:, k + 1] = (values[:, k] + t * slopes[:, k] - slope) / b[k]
    return values[:, :count], slopes[:, :count]


def log_dimension(degree: np.ndarray, d: int) -> np.ndarray:
    """Return the logarithm of the number of spherical harmonics of degree l, which is `p_l(1)^2`."""
    from scipy.special import gammaln

    inner = np.maximum(np.asarray(degree, float), 1)
    log = np.log(2 * inner + d - 2) + gammaln(inner + d - 2) - gammaln(inner + 1) - gammaln(d - 1)
    return np.where(np.asarray(degree) == 0, 0.0, log)
