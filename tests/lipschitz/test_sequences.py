"""Random sequences with the statistics of given ones."""

import math

import numpy as np
import pytest
import scipy.linalg

from tokenfield.lipschitz import correlation_by_distance, data_model, sequence_model

D = 3


def given(seed=0):
    """Two sequences of different lengths, with an offset and a covariance that is not isotropic."""
    stretch = np.array([[2.0, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.2]])
    parts = [np.asarray(data_model("correlated", D, correlation=0.8)(n, seed + n).x) for n in (40, 60)]
    return [1 + part @ stretch for part in parts]


def test_correlations_are_naive_sums():
    parts = given()
    mean = np.concatenate(parts).mean(0)
    for k, found in enumerate(correlation_by_distance(parts)):
        above = sum(np.dot(x[i] - mean, x[i + k] - mean) for x in parts for i in range(len(x) - k))
        below = sum(np.dot(x[i] - mean, x[i] - mean) for x in parts for i in range(len(x)))
        assert found == pytest.approx(above / below, abs=1e-13)
    assert len(correlation_by_distance(parts)) == 40


def test_correlations_are_those_of_a_stationary_sequence():
    c = correlation_by_distance(given(1))
    for n in (40, 100):
        row = np.zeros(n)
        row[:40] = c
        assert np.linalg.eigvalsh(scipy.linalg.toeplitz(row)).min() > -1e-12


def test_correlated_tokens_forget_each_other_as_they_should():
    found = correlation_by_distance([data_model("correlated", 8, correlation=0.9)(4000, 0)])
    np.testing.assert_allclose(found[:5], 0.9 ** np.arange(5), atol=0.03)


@pytest.mark.parametrize("independent", [False, True])
def test_moments_of_the_model(independent):
    """Mean, covariance and the covariance of tokens k apart, over many samples, within four standard errors."""
    parts = given()
    tokens = np.concatenate(parts)
    mean, cov = tokens.mean(0), np.cov(tokens.T, bias=True)
    draw = sequence_model(parts, independent=independent)
    runs = np.stack([np.asarray(draw(45, seed).x) for seed in range(1000)]) - mean
    c = np.zeros(45)
    c[0] = 1.0
    if not independent:
        c[:40] = correlation_by_distance(parts)
    size = math.sqrt(cov.trace())
    assert np.linalg.norm(runs.mean(0), axis=1).max() < 6 * size / math.sqrt(1000)
    for k in (0, 1, 5, 39, 44):
        products = runs[:, 0, :, None] * runs[:, k, None, :]
        error = products.std(0) / math.sqrt(len(runs))
        assert (np.abs(products.mean(0) - c[k] * cov) < 4.5 * error + 1e-12).all(), k


def test_samples_are_those_of_their_seed():
    draw = sequence_model(given())
    assert (draw(9, 5).x == draw(9, 5).x).all()
    assert (draw(9, 5).x != draw(9, 6).x).any()


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([], "non-empty list"),
        (None, "sequences must be a list"),
        ("text", "sequences must be a list of tokens, .* got 'text'"),
        (np.eye(3), r"give \[x\] for one sequence x"),
        ([np.ones((1, 2))], "at least two"),
        ([np.eye(2), np.eye(3)], "in one R\\^d"),
        ([np.ones((4, 2))], "all of them are equal"),
    ],
)
def test_bad_input(sequences, message):
    with pytest.raises(ValueError, match=message):
        correlation_by_distance(sequences)
