"""The largest singular values of a linear map that is given only by its products with vectors."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._cost import SHORTEST_BASIS

Product = Callable[[Any], Any]
BASIS_ENTRIES = 1 << 25  # numbers in the Krylov basis: 256 MB
LONGEST_BASIS = 96
ROUNDING = 1e-13  # of the largest eigenvalue of D^T D
REFINEMENTS = 6
SEED = 20_240_613


class Singular(NamedTuple):
    """Singular values with their vectors and error bounds.

    Attributes:
        values: (k,) decreasing.
        left, right: (k, m) and (k, N) orthonormal rows; a left row is 0 where the value is 0.
        radius: (k,) a singular value lies within this distance of each value.
        products: number of products with the map, each together with one with its transpose.
        converged: True if every radius is within the tolerance.
    """

    values: np.ndarray
    left: np.ndarray
    right: np.ndarray
    radius: np.ndarray
    products: int
    converged: bool


def largest_singular(
    apply: Product, transpose: Product, size: int, k: int, rtol: float, max_products: int, seed: int = SEED
) -> Singular:
    """Return the k largest singular values, by block Lanczos for `D^T D` with full reorthogonalization and thick restarts.

    This is Golub–Kahan bidiagonalization in terms of the right vectors. Blocks of k vectors find a value repeated k
    times; the start is random with a fixed seed. Every Ritz value is at most the singular value of its rank. At the end
    D is applied to the vectors once more: with `r = D^T u - sigma v`, `D v = sigma u`, the symmetric matrix
    `[[0, D], [D^T, 0]]` has an eigenvalue within `|r|/sqrt(2)` of sigma, regardless of earlier errors.

    Args:
        apply: products of `D` with the rows of a (b, N) array, as a (b, …) array of m numbers per row.
        transpose: products of `D^T` with the rows of a (b, m) array or of an output of `apply`, as a (b, N) array.
        size: N.
        k: number of singular values.
        rtol: allowed radius, relative to the largest value.
        max_products: stop after about this many products, converged or not.
    """
    rng = np.random.default_rng(seed)
    k = min(k, size)
    longest = basis_rows(size, k)
    basis = np.empty((longest, size))
    H = np.zeros((longest, longest))
    block = _orthonormal(rng.standard_normal((k, size)), basis[:0], rng)[0]
    m = products = 0
    while True:
        new = slice(m, m + len(block))
        basis[new] = block
        m = new.stop
        z = transpose(apply(block))
        products += len(block)
        h = _inner(basis[:m], z)
        z = z - _combined(h, basis[:m])
        H[:m, new], H[new, :m] = h, h.T
        theta, S = np.linalg.eigh(H[:m, :m])
        theta, S = np.maximum(theta[::-1], 0), S[:, ::-1]
        scale = math.sqrt(theta[0]) if theta[0] > 0 else 0.0
        following, B = _orthonormal(z, basis[:m], rng, floor=1e-15 * theta[0])
        wanted = min(k, m)
        rho = np.linalg.norm(B @ S[new, :wanted], axis=0)
        # Eigenvalues of D^T D at rounding level are left to the final products, which do not square D.
        small = theta[:wanted] <= ROUNDING * theta[0]
        done = m >= k and bool((small | (_radius(rho, np.sqrt(theta[:wanted])) <= rtol * scale)).all())
        if done or m == size or products + len(following) > max_products:
            break
        if m + len(following) > longest:
            keep = min(m, max(k, min(2 * k + 6, longest - 2 * len(following))))
            basis[:keep] = S[:, :keep].T @ basis[:m]
            H[:] = 0
            H[:keep, :keep] = np.diag(theta[:keep])
            m = keep
            following = _orthonormal(following, basis[:m], rng)[0]
        block = following[: size - m]
    return _finished(apply, transpose, S[:, :wanted].T @ basis[:m], rtol, products, max_products)


def basis_rows(size: int, k: int) -> int:
    """Return how many vectors of this size are stored for k singular values."""
    return min(size, max(4 * k, min(LONGEST_BASIS, max(SHORTEST_BASIS, BASIS_ENTRIES // size))))


def _finished(
    apply: Product, transpose: Product, right: np.ndarray, rtol: float, products: int, max_products: int
) -> Singular:
    """Return the Rayleigh–Ritz values in the span of the vectors found, with residuals from new products.

    In `D^T D`, values below `1e-8` of the largest are lost to rounding. If a residual is too large for that reason, it is added
    to the vectors, and values and residuals are computed again, without squares.
    """
    rng = np.random.default_rng(SEED)
    k, eps = len(right), np.finfo(float).eps
    rows = _orthonormal(right, right[:0], rng)[0]
    image = np.asarray(apply(rows)).reshape(k, -1)
    products += k
    for refinement in range(REFINEMENTS + 1):
        longest = math.sqrt(float(np.einsum("bn,bn->b", image, image).max()))
        Q, B = _orthonormal(image, image[:0], rng, floor=eps * longest)
        U, values, W = np.linalg.svd(B)
        values = np.append(values, np.zeros(len(rows) - len(values)))[:k]
        right = _combined(W[:k].T, rows)
        left = np.zeros((k, image.shape[1]))
        left[: len(Q)] = _combined(U[:, :k], Q)
        left[values == 0] = 0
        residual = transpose(left) - values[:, None] * right
        radius = _radius(values * np.linalg.norm(residual, axis=1), values) + 4 * eps * values[0]
        missed = radius > max(rtol, 1e-15) * values[0]
        if not missed.any() or refinement == REFINEMENTS or products + missed.sum() > max_products:
            break
        added = _orthonormal(residual[missed], rows, rng)[0]
        if not len(added):
            break
        rows = np.concatenate([rows, added])
        image = np.concatenate([image, np.asarray(apply(added)).reshape(len(added), -1)])
        products += len(added)
    return Singular(values, left, right, radius, products, not missed.any())


def _radius(rho: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a bound on the distance to a singular value, given `rho = |D^T D v - sigma^2 v|` and `sigma = |D v|`.

    It is the smallest of `rho/(sqrt(2) sigma)`, by the symmetric matrix, `sqrt(rho)`, by `D^T D`, and sigma, because the smallest
    singular value is at most `|D v|`.
    """
    by_matrix = np.divide(rho, math.sqrt(2) * values, out=np.full_like(rho, np.inf), where=values > 0)
    return np.minimum(np.minimum(by_matrix, np.sqrt(rho)), values)


def _orthonormal(
    z: np.ndarray, basis: np.ndarray, rng: np.random.Generator, floor: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal rows Q, orthogonal to the basis, and B with `z = B^T Q`; random rows if z is rank-deficient."""
    count, size = z.shape
    Q, B = np.zeros_like(z), np.zeros((count, count))
    found = 0
    for index, row in enumerate(z):
        row = row.copy()
        B[:found, index] = _against(Q[:found], row) + _against(Q[:found], row)
        length = _length(row)
        if length > max(floor, 1e-300) and _made_unit(row, basis, Q[:found]):
            B[found, index], Q[found] = length, row
            found += 1
    while found < count and len(basis) + found < size:
        row = rng.standard_normal((size,))
        if _made_unit(row, basis, Q[:found]):
            Q[found] = row
            found += 1
    return Q[:found], B[:found]


def _made_unit(row: np.ndarray, *bases: np.ndarray) -> bool:
    """Make a row, in place, a unit vector orthogonal to orthonormal rows; return False if it is in their span.

    A row that loses half of its length must be orthogonalized again.
    """
    length = _length(row)
    for _ in range(3):
        if length == 0:
            return False
        row /= length
        for rows in bases:
            _against(rows, row)
        length = _length(row)
        if length > 0.5:
            row /= length
            return True
    return False


# Products with a basis are limited by memory bandwidth, so a plain loop is as fast as BLAS. It makes the maps faster: after a
# product, BLAS threads busy-wait for milliseconds on the cores that the next product with the map needs.


def _inner(rows: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return `rows z^T`."""
    return np.einsum("mn,bn->mb", rows, z)


def _combined(c: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return `c^T rows`."""
    return np.einsum("mb,mn->bn", c, rows)


def _against(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Subtract from a row, in place, its components along orthonormal rows, and return the components."""
    h = np.einsum("mn,n->m", rows, row)
    row -= np.einsum("m,mn->n", h, rows)
    return h


def _length(row: np.ndarray) -> float:
    return math.sqrt(float(np.einsum("n,n->", row, row)))
