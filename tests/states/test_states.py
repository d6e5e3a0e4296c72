"""Tokens and samplers: what they hold, and what they refuse."""

import numpy as np
import pytest

import tokenfield as tkf


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tkf.Tokens(np.zeros((0, 3))), "at least one token"),
        (lambda: tkf.Tokens([1.0, 2.0]), "x must be a matrix"),
        (lambda: tkf.Tokens([[1.0, np.nan]]), r"x must be finite, got nan at index \(0, 1\)"),
        (lambda: tkf.Tokens([[1.0, np.inf]]), "x must be finite"),
        (lambda: tkf.Tokens([["a"]]), "x must be a number or an array of numbers"),
        (lambda: tkf.Tokens(np.eye(2), weights=[-0.5, 1.5]), "weights must be >= 0, got -0.5"),
        (lambda: tkf.Tokens(np.eye(2), weights=[0.5, 0.6]), "weights must sum to 1, got a sum of 1.1"),
        (lambda: tkf.Tokens(np.eye(2), weights=[1.0]), "one entry for each of the 2 tokens"),
        (lambda: tkf.Tokens(np.eye(2), positions=[0.0, np.nan]), "positions"),
        (lambda: tkf.uniform_sphere(0, 3), "n must be a whole number >= 1, got 0"),
        (lambda: tkf.uniform_sphere(5, 1), "d must be a whole number >= 2, got 1"),
        (lambda: tkf.uniform_sphere(5, 3, seed=-1), "seed must be a whole number >= 0, got -1"),
        (lambda: tkf.gaussian_tokens(5, 3, seed=-1), "seed must be a whole number >= 0, got -1"),
        (lambda: tkf.hemisphere(5, 3, seed=0.5), "seed must be a whole number >= 0, got 0.5"),
        (lambda: tkf.separated_clusters(5, 3, 2, seed="a"), "seed must be a whole number >= 0, got 'a'"),
        (lambda: tkf.perturbed(tkf.uniform_sphere(5, 3), seed=-1), "seed must be a whole number >= 0, got -1"),
        (lambda: tkf.equiangular_tokens(-0.5, 5), "rho must lie in"),
        (lambda: tkf.equiangular_tokens(0.5, 5, d=3), "d must be at least n"),
        (lambda: tkf.gaussian_tokens(5, 2, cov=[[1.0, 0.0], [0.0, -1.0]]), "non-negative"),
        (lambda: tkf.gaussian_tokens(5), "d must be given"),
        (lambda: tkf.separated_clusters(3, 2, k=4), "k must be at most n"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_samplers_have_the_law_they_claim():
    x = np.asarray(tkf.uniform_sphere(40_000, 3, seed=1).x)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(3) / 3, atol=0.01)
    cov = np.array([[2.0, 0.6], [0.6, 0.5]])
    y = np.asarray(tkf.gaussian_tokens(40_000, seed=1, mean=[1.0, -2.0], cov=cov).x)
    np.testing.assert_allclose(y.mean(axis=0), [1.0, -2.0], atol=0.03)
    np.testing.assert_allclose(np.cov(y.T), cov, atol=0.05)
    half = np.asarray(tkf.hemisphere(500, 4, seed=1, margin=0.2).x)
    assert half[:, 0].min() > 0.2
    gram = np.asarray(tkf.equiangular_tokens(0.3, 6, d=9, radius=2.0).x)
    np.testing.assert_allclose(gram @ gram.T, 4 * (0.3 + 0.7 * np.eye(6)), atol=1e-14)
    groups = tkf.separated_clusters(60, 3, k=4, spread=1e-3, seed=0)
    assert sorted(tkf.clusters(groups).sizes) == [15] * 4


def test_same_seed_same_tokens():
    a, b, c = (np.asarray(tkf.uniform_sphere(9, 4, seed=s).x) for s in (3, 3, 4))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.1


def test_tokens_do_not_change_with_the_array_they_came_from():
    """JAX may keep the memory of an array that it is given, if it lies well: one of many sizes will."""
    for n in range(500, 564):
        x = np.random.default_rng(n).standard_normal((n, 2))
        state, before = tkf.Tokens(x), x.copy()
        x[:] = 0.0
        np.testing.assert_array_equal(state.x, before)
