"""The largest singular values of matrices with known ones."""

import numpy as np
import pytest

from tokenfield.lipschitz import singular
from tokenfield.lipschitz.singular import largest_singular


def matrix(values, rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((rows, len(values))))[0]
    right = np.linalg.qr(rng.standard_normal((columns, len(values))))[0]
    return (left * values) @ right.T


def solve(M, k, rtol=1e-10, most=2000):
    return largest_singular(lambda e: e @ M.T, lambda u: u @ M, M.shape[1], k, rtol, most)


@pytest.mark.parametrize("shape", [(40, 40), (30, 50), (50, 30), (1, 1), (3, 2)])
@pytest.mark.parametrize("k", [1, 2])
def test_random_matrices(shape, k):
    M = np.random.default_rng(1).standard_normal(shape)
    found = solve(M, k)
    s = np.linalg.svd(M, compute_uv=False)[:k]
    np.testing.assert_allclose(found.values[: len(s)], s, rtol=1e-13)
    assert found.converged


@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_repeated_values(k):
    values = np.array([3.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1e-3])
    found = solve(matrix(values, 20, 25), k)
    np.testing.assert_allclose(found.values, np.append(values, 0)[:k], rtol=1e-12, atol=1e-13)
    assert found.converged


@pytest.mark.parametrize("seed", range(12))
def test_values_that_squares_hide(seed):
    """Values far below the largest, whose squares are rounding of its square, are found to the same absolute accuracy."""
    rng = np.random.default_rng(seed)
    size, k = int(rng.integers(8, 60)), int(rng.integers(2, 6))
    values = np.sort(np.append(rng.uniform(0.5, 2.0), 10.0 ** -rng.uniform(4, 9, 5)))[::-1]
    found = solve(matrix(values, size + 3, size, seed), k, rtol=1e-11)
    np.testing.assert_allclose(found.values, values[:k], rtol=0, atol=1e-14 * values[0])
    assert found.converged


@pytest.mark.parametrize("longest", [12, 24, 96])
def test_restarts(longest, monkeypatch):
    """A slowly decreasing spectrum needs many more steps than a short basis holds."""
    monkeypatch.setattr(singular, "SHORTEST_BASIS", longest)
    monkeypatch.setattr(singular, "LONGEST_BASIS", longest)
    values = 1 - np.arange(300) / 2000
    found = solve(matrix(values, 300, 300), 2)
    np.testing.assert_allclose(found.values, values[:2], rtol=1e-12)
    assert found.converged
    assert found.products > 40


def test_values_are_lower_bounds_and_intervals_hold_at_every_stage():
    values = 1 - np.arange(200) / 1000
    M = matrix(values, 200, 200)
    before = 0.0
    for most in (1, 3, 8, 20, 60, 200):
        found = solve(M, 1, most=most)
        assert before <= found.values[0] <= 1 + 1e-14
        assert np.abs(values - found.values[0]).min() <= found.radius[0]
        assert found.converged == (found.radius[0] <= 1e-10)
        before = found.values[0]
    assert found.converged


def test_rounding_ends_the_search():
    found = solve(matrix(np.array([1.0, 0.9, 0.5]), 10, 10), 1, rtol=1e-30)
    assert found.values[0] == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize("kind", ["of low rank", "of whole numbers", "identity"])
def test_small_matrices_that_lack_rank(kind):
    """Products then end within the vectors found, but for rounding, which must not be taken for a new vector."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        (rows, columns), k = rng.integers(1, 8, 2), int(rng.integers(1, 4))
        values = rng.choice([1.0, 2.0, 3.0, 1e-8], rng.integers(0, min(rows, columns) + 1))
        M = matrix(values, rows, columns, seed) if kind != "identity" else 2 * np.eye(rows, columns)
        M = np.round(M) if kind == "of whole numbers" else M
        found = solve(M, k)
        np.testing.assert_allclose(found.right @ found.right.T, np.eye(len(found.right)), rtol=0, atol=1e-13)
        exact = np.append(np.linalg.svd(M, compute_uv=False), np.zeros(columns + k))
        for value, radius in zip(found.values, found.radius, strict=True):
            assert np.abs(exact - value).min() <= radius
        if found.converged:
            np.testing.assert_allclose(found.values, exact[: len(found.values)], rtol=0, atol=1e-10 * exact[0])


def test_rounding_within_the_basis_is_no_new_vector():
    rng = np.random.default_rng(0)
    Q, B = singular._orthonormal(np.array([[1e-16, 0.0]]), np.array([[1.0, 0.0]]), rng)
    np.testing.assert_allclose(np.abs(Q), [[0.0, 1.0]], atol=1e-15)
    assert (B == 0).all()
