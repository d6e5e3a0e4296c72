"""The smooth count of clusters on states where it is known."""

import math

import jax
import numpy as np
import pytest
from cases import tokens

import tokenfield as tkf


@pytest.mark.parametrize("sizes", [(1,), (4,), (1, 1, 1), (1, 2, 5), (3, 3, 1, 6)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "distance"])
def test_clusters_far_apart_count_one_each(sizes, weighted, metric):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    w = np.random.default_rng(0).dirichlet(np.ones(len(labels))) if weighted else None
    state = tkf.Tokens(2 * np.eye(len(sizes))[labels], w)
    assert tkf.soft_cluster_count(state, 1e-3, metric) == pytest.approx(len(sizes), rel=1e-14)
    assert sorted(tkf.clusters(state).sizes) == sorted(sizes)


def test_two_tokens_at_any_distance():
    for angle, tol in ((0.3, 0.1), (1e-3, 1e-6), (2.0, 0.5)):
        state, kernel = tkf.circle_tokens([0.0, angle]), math.exp(-2 * math.sin(angle / 2) ** 2 / tol)
        assert tkf.soft_cluster_count(state, tol) == pytest.approx(2 / (1 + kernel), rel=1e-12)
        uneven = tkf.Tokens(state.x, [0.2, 0.8])
        expected = 0.2 / (0.2 + 0.8 * kernel) + 0.8 / (0.8 + 0.2 * kernel)
        assert tkf.soft_cluster_count(uneven, tol) == pytest.approx(expected, rel=1e-12)
    far = tkf.Tokens(1e3 + np.array([[0.0], [0.01]]))
    assert tkf.soft_cluster_count(far, 0.02, "distance") == pytest.approx(2 / (1 + math.exp(-0.25)), rel=1e-9)


@pytest.mark.parametrize("metric", ["cosine", "distance"])
def test_any_tokens_by_a_naive_loop(metric):
    state, tol = tokens(n=9, unit=False), 0.4
    x, w = np.asarray(state.x), np.asarray(state.weights)
    if metric == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    reach = math.sqrt(2 * tol) if metric == "cosine" else tol
    expected = 0.0
    for i in range(9):
        expected += w[i] / sum(w[j] * math.exp(-(math.dist(x[i], x[j]) ** 2) / reach**2) for j in range(9))
    assert tkf.soft_cluster_count(state, tol, metric) == pytest.approx(expected, rel=1e-13)


def test_tokens_of_weight_zero_do_not_count():
    state = tkf.Tokens([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [0.5, 0.5, 0.0])
    assert tkf.soft_cluster_count(state) == pytest.approx(2, rel=1e-14)
    found = jax.grad(lambda x: tkf.soft_cluster_count(tkf.Tokens(x, state.weights), 0.5))(state.x)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("metric", ["cosine", "distance"])
def test_an_angle_counts_as_its_tokens(metric):
    state = tkf.Equiangular(0.7, 5, radius=1.5)
    for tol in (0.1, 0.8):
        assert tkf.soft_cluster_count(state, tol, metric) == pytest.approx(
            tkf.soft_cluster_count(state.tokens(), tol, metric), rel=1e-12
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"tol": 0.0}, "tol must be finite and > 0"), ({"metric": "auto"}, "metric must be one of")],
)
def test_what_it_does_not_take(options, message):
    with pytest.raises(ValueError, match=message):
        tkf.soft_cluster_count(tokens(), **options)
    with pytest.raises(TypeError, match="soft_cluster_count is not defined for a state of type CircleDensity"):
        tkf.soft_cluster_count(tkf.CircleDensity.uniform(4))
