"""Functions of `t = <x, e>` on the sphere: orthonormal Gegenbauer polynomials and Gauss quadrature."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import gammaln


class Quadrature(NamedTuple):
    """Nodes and weights for the law of `<x, e>`, x uniform on the sphere of R^d (the weights sum to 1)."""

    t: np.ndarray
    weights: np.ndarray


def jacobi(d: int, count: int) -> np.ndarray:
    """`b_1, …, b_count` in `t p_l = b_{l+1} p_{l+1} + b_l p_{l-1}`, p_l orthonormal for the law of t."""
    k = np.arange(1.0, count + 1)
    if d == 2:
        return np.where(k == 1, math.sqrt(0.5), 0.5)
    return np.sqrt(k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4)))


@lru_cache(maxsize=64)
def gauss(nodes: int, d: int) -> Quadrature:
    """Golub–Welsch: nodes are eigenvalues of the Jacobi matrix, weights the squares of first components.

    In high dimension these components may be so small that they have no correct digits; there the weights are
    `1/sum_l p_l^2`, which is worse near |t| = 1 in low dimension.
    """
    if d == 2:
        return Quadrature(np.cos((np.arange(nodes)[::-1] + 0.5) * np.pi / nodes), np.full(nodes, 1 / nodes))
    t, vectors = eigh_tridiagonal(np.zeros(nodes), jacobi(d, nodes - 1))
    t, first = (t - t[::-1]) / 2, np.abs(vectors[0])
    with np.errstate(over="ignore"):
        weights = np.where(first > 10 / nodes**2, first**2, 1 / (polynomials(t, nodes, d)[0] ** 2).sum(axis=1))
    weights = (weights + weights[::-1]) / 2
    return Quadrature(t, weights / weights.sum())


@lru_cache(maxsize=12)
def basis(nodes: int, d: int) -> np.ndarray:
    """`p_0 … p_{nodes-1}` at the nodes of `gauss`, (node, degree)."""
    if d == 2:  # sqrt(2) cos(l theta), without the loss of digits of the recurrence near |t| = 1
        k = np.arange(nodes)
        turns = (2 * k[::-1, None] + 1) * k % (4 * nodes)  # l theta in units of pi/(2 nodes)
        return np.sqrt(np.where(k == 0, 1, 2)) * np.cos(turns * (np.pi / (2 * nodes)))
    return polynomials(gauss(nodes, d).t, nodes, d)[0]


def polynomials(t: np.ndarray, count: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """`p_0 … p_{count-1}` and their derivatives at t, orthonormal for the law of `<x, e>`: two (len(t), count) arrays."""
    b = jacobi(d, count + 1)
    values, slopes = np.zeros((len(t), count + 1)), np.zeros((len(t), count + 1))
    values[:, 0] = 1
    with np.errstate(over="ignore", invalid="ignore"):  # in very high dimension; left to the caller
        for k in range(count):
            before, slope = (b[k - 1] * values[:, k - 1], b[k - 1] * slopes[:, k - 1]) if k else (0.0, 0.0)
            values[:, k + 1] = (t * values[:, k] - before) / b[k]
            slopes[:, k + 1] = (values[:, k] + t * slopes[:, k] - slope) / b[k]
    return values[:, :count], slopes[:, :count]


def log_dimension(degree: np.ndarray, d: int) -> np.ndarray:
    """The logarithm of the number of spherical harmonics of degree l, which is `p_l(1)^2`."""
    inner = np.maximum(np.asarray(degree, float), 1)
    log = np.log(2 * inner + d - 2) + gammaln(inner + d - 2) - gammaln(inner + 1) - gammaln(d - 1)
    return np.where(np.asarray(degree) == 0, 0.0, log)
