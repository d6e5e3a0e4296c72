"""Tokens and samplers: what they hold, and what they refuse."""

import math

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
        (lambda: tkf.sinusoidal(0, 4), "n must be a whole number >= 1, got 0"),
        (lambda: tkf.sinusoidal(3, 4, theta=-1.0), "theta must be finite and > 0, got -1.0"),
        (
            lambda: tkf.Tokens(np.eye(2)).with_encoding(np.eye(3)),
            r"encoding must have the shape .* \(2, 2\), got \(3, 3\)",
        ),
        (lambda: tkf.Tokens(np.eye(2)).with_encoding([[0.0, np.nan], [0.0, 0.0]]), "encoding must be finite"),
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


@pytest.mark.parametrize("d", [6, 5])
def test_sinusoidal_encodings_are_those_of_the_formula(d):
    """`PE(pos, 2i) = sin(pos / 10000^{2i/d})`, `PE(pos, 2i+1) = cos(pos / 10000^{2i/d})` (Vaswani et al. 2017)."""
    n = 7
    for given in ({}, {"theta": 50.0}):
        theta = given.get("theta", 10_000.0)
        expected = np.zeros((n, d))
        for pos in range(n):
            for i in range((d + 1) // 2):
                angle = pos / math.pow(theta, 2 * i / d)
                expected[pos, 2 * i] = math.sin(angle)
                if 2 * i + 1 < d:
                    expected[pos, 2 * i + 1] = math.cos(angle)
        np.testing.assert_allclose(tkf.sinusoidal(n, d, **given), expected, rtol=0, atol=1e-15)


def test_sinusoidal_encodings_see_distances_only():
    """`<e_s, e_t>` depends on s - t alone, and `|e_s|^2 = d/2`."""
    e = np.asarray(tkf.sinusoidal(9, 8))
    gram = e @ e.T
    for shift in range(9):
        np.testing.assert_allclose(np.diag(gram, shift), gram[0, shift], rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.diag(gram), 4, rtol=1e-15)


def test_an_encoding_is_added_to_each_token():
    state = tkf.Tokens(np.eye(3), weights=[0.2, 0.3, 0.5], positions=[2.0, 0.0, 1.0])
    e = np.arange(9.0).reshape(3, 3)
    coded = state.with_encoding(e)
    np.testing.assert_array_equal(coded.x, np.eye(3) + e)
    np.testing.assert_array_equal(coded.weights, state.weights)
    np.testing.assert_array_equal(coded.positions, state.positions)


def test_random_tokens_share_a_hemisphere_as_often_as_wendel_says():
    """On the circle: where a gap between neighbors is more than a half turn. The probability is n / 2^(n-1)."""
    draws = 4000
    for n in (3, 4, 6):
        x = np.asarray(tkf.uniform_sphere(n * draws, 2, seed=n).x).reshape(draws, n, 2)
        angles = np.sort(np.arctan2(x[..., 1], x[..., 0]), axis=1)
        gaps = np.diff(angles, axis=1, append=angles[:, :1] + 2 * np.pi)
        p = n / 2 ** (n - 1)
        assert (gaps.max(axis=1) > np.pi).mean() == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / draws))
