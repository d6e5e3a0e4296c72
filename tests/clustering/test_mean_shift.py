"""Mean shift against a naive loop, the gradient of the density, and the layers of a Transformer."""

import warnings

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.clustering import MeanShift
from tokenfield.clustering.grouping import group
from tokenfield.clustering.shift import Kernel, step_of

BLOBS = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])


def blobs(n=120, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 4
    return BLOBS[truth] + spread * rng.standard_normal((n, 3)), truth


def sphere_blobs(n=60, k=3, seed=0):
    return np.asarray(tkf.separated_clusters(n, 3, k=k, spread=0.15, seed=seed).x), np.arange(n) * k // n


def naive_shift(x, keys, w, beta, sphere=False, step=1.0):
    out = np.zeros_like(x)
    for i in range(len(x)):
        kernel = w * np.exp(-beta / 2 * np.sum((x[i] - keys) ** 2, axis=1))
        out[i] = (1 - step) * x[i] + step * sum(k * y for k, y in zip(kernel, keys, strict=True)) / sum(kernel)
        if sphere:
            out[i] /= np.linalg.norm(out[i])
    return out


def naive_classical(X, w, beta, sphere=False, shifts=150):
    x = X.copy()
    for _ in range(shifts):
        x = naive_shift(x, X, w, beta, sphere)
    return x


def same_partition(a, b):
    return np.array_equal(a[:, None] == a, b[:, None] == b)


@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_one_shift_is_the_naive_loop(sphere, step):
    X = sphere_blobs()[0] if sphere else blobs(60)[0]
    w = np.random.default_rng(1).dirichlet(np.ones(len(X)))
    w[3] = 0.0
    found = step_of(X[:37], X, w, Kernel(0.7, sphere, step))
    np.testing.assert_allclose(found, naive_shift(X[:37], X, w, 0.7, sphere, step), atol=1e-12)


@pytest.mark.parametrize("sphere", [False, True])
def test_classical_against_naive_iteration(sphere):
    X, _ = sphere_blobs(36) if sphere else blobs(36)
    w = np.random.default_rng(2).dirichlet(np.full(36, 5.0))
    beta = 8.0 if sphere else 0.6
    model = MeanShift(beta=beta, geometry="sphere" if sphere else "euclidean").fit(X, sample_weight=w)
    ends = naive_classical(X, w, beta, sphere)
    np.testing.assert_allclose(model.cluster_centers_[model.labels_], ends, atol=1e-4)
    assert same_partition(model.labels_, group(ends, 1e-2))


@pytest.mark.parametrize("blurring", [False, True])
@pytest.mark.parametrize("options", [{}, {"bandwidth": 1.5}, {"beta": 0.5, "step": 0.5}])
def test_separated_blobs_are_found(blurring, options):
    X, truth = blobs()
    model = MeanShift(blurring=blurring, **options)
    assert same_partition(model.fit_predict(X), truth)
    assert model.cluster_centers_.shape == (4, 3)
    assert np.abs(np.sort(model.cluster_centers_.sum(1)) - [0, 9, 9, 9]).max() < 1.5


@pytest.mark.parametrize("blurring", [False, True])
def test_separated_blobs_are_found_on_the_sphere(blurring):
    X, truth = sphere_blobs()
    model = MeanShift(beta=20.0, blurring=blurring, geometry="sphere").fit(X)
    assert same_partition(model.labels_, truth)
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("bandwidth", [0.4, 0.8, 1.5])
def test_centers_are_zeros_of_the_gradient_of_the_density(bandwidth):
    X, _ = blobs(300, seed=3)
    model = MeanShift(bandwidth=bandwidth, tol=1e-9).fit(X)
    difference = X - model.cluster_centers_[:, None]
    kernel = np.exp(-((difference / bandwidth) ** 2).sum(-1) / 2)
    gradient = (kernel[..., None] * difference).sum(1) / kernel.sum(1)[:, None] / bandwidth**2
    assert np.abs(gradient).max() < 1e-6
    hessian = np.einsum("ij,ijk,ijl->ikl", kernel, difference, difference) / kernel.sum(1)[:, None, None]
    assert np.linalg.eigvalsh(hessian / bandwidth**2 - np.eye(3)).max() < 1e-6  # maxima, not saddles


@pytest.mark.parametrize("h", [0.2, 1.0])
def test_blurring_on_the_sphere_is_a_layer_of_attention(h):
    tokens = tkf.uniform_sphere(40, 4, seed=0)
    run = tkf.layers(tkf.Transformer(tkf.Softmax(beta=6.0), norm=tkf.PostLN()), tokens, depth=5, step=h)
    model = MeanShift(beta=6.0, blurring=True, geometry="sphere", step=h / (1 + h), max_iter=5, tol=1e-9)
    with pytest.warns(RuntimeWarning, match="max_iter = 5"):
        model.fit(tokens.x)
    np.testing.assert_allclose(model._history[-1][0], run.final.x, atol=1e-9)


def test_a_short_blurring_step_is_beta_times_sa():
    x = np.asarray(tkf.uniform_sphere(30, 3, seed=1).x)
    beta, step = 6.0, 1e-6
    speed = (step_of(x, x, np.full(30, 1 / 30), Kernel(beta, True, step)) - x) / (step / beta)
    kernel = np.exp(beta * x @ x.T)
    mean = kernel @ x / kernel.sum(1, keepdims=True)
    np.testing.assert_allclose(speed, beta * (mean - (mean * x).sum(1, keepdims=True) * x), atol=1e-4)


@pytest.mark.parametrize("blurring", [False, True])
def test_a_weight_counts_like_copies(blurring):
    X, _ = blobs(40, seed=5)
    times = np.random.default_rng(0).integers(1, 4, 40)
    weighted = MeanShift(beta=0.6, blurring=blurring).fit(X, sample_weight=times)
    copied = MeanShift(beta=0.6, blurring=blurring).fit(np.repeat(X, times, axis=0))
    assert same_partition(np.repeat(weighted.labels_, times), copied.labels_)
    np.testing.assert_allclose(weighted.cluster_centers_, copied.cluster_centers_, atol=1e-4)


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
@pytest.mark.parametrize("blurring", [False, True])
def test_predict_agrees_with_labels(blurring, geometry):
    X, _ = sphere_blobs(80, 4, seed=1) if geometry == "sphere" else blobs(80)
    model = MeanShift(blurring=blurring, geometry=geometry).fit(X)
    assert np.array_equal(model.predict(X), model.labels_)
    assert np.array_equal(model.predict(model.cluster_centers_), np.arange(len(model.cluster_centers_)))


def test_largest_cluster_first_and_far_data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(5, 2)), rng.normal(size=(30, 2)) + 12]) + 1e6
    model = MeanShift(bandwidth=2.0).fit(X)
    assert np.bincount(model.labels_).tolist() == [30, 5]
    np.testing.assert_allclose(model.cluster_centers_, [X[5:].mean(0), X[:5].mean(0)], atol=1.0)


def test_one_point_equal_points_and_a_single_column():
    for X in ([[3.0, 4.0]], np.ones((5, 2))):
        model = MeanShift().fit(X)
        assert set(model.labels_) == {0}
        np.testing.assert_allclose(model.cluster_centers_, np.asarray(X)[:1])
    assert MeanShift(beta=1.0).fit([[0.0], [0.1], [9.0]]).labels_.tolist() == [0, 0, 1]


@pytest.mark.slow
def test_ten_thousand_points():
    rng = np.random.default_rng(0)
    truth = np.arange(10_000) % 3
    X = 12.0 * np.eye(3)[truth] + rng.standard_normal((10_000, 3))
    assert same_partition(MeanShift(blurring=True, bandwidth=2.0).fit_predict(X)[::7], truth[::7])


def test_wide_groups_are_cut():
    line = np.stack([np.linspace(0, 1, 101), np.zeros(101)], axis=1)
    groups = group(line, 0.1)
    for k in range(groups.max() + 1):
        assert np.ptp(line[groups == k, 0]) <= 0.1
    assert group(np.array([[0.0], [0.06], [1.0]]), 0.1).tolist() == [0, 0, 1]


def test_parameters_like_scikit_learn():
    from sklearn.base import clone

    model = MeanShift(beta=3.0, blurring=True)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(beta=None, bandwidth=0.5).bandwidth == 0.5
    assert "bandwidth=0.5" in repr(model)
    with pytest.raises(ValueError, match="'sigma' is not a parameter"):
        model.set_params(sigma=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimator MeanShift does not inherit")
def test_scikit_learn_accepts_it_as_an_estimator():
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(MeanShift(), on_fail=None, on_skip=None)
    assert len(results) > 40
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []


def test_weights_count_points_for_the_bandwidth_unless_they_are_probabilities():
    X = np.random.default_rng(3).normal(size=(12, 2))
    times = np.arange(12) % 3
    repeated = MeanShift().fit(np.repeat(X, times, axis=0)).beta_
    assert MeanShift().fit(X, sample_weight=times).beta_ == pytest.approx(repeated, rel=1e-12)
    assert MeanShift().fit(X, sample_weight=np.full(12, 1 / 12)).beta_ == pytest.approx(
        MeanShift().fit(X).beta_, rel=1e-12
    )


def test_the_order_of_the_data_does_not_change_the_labels():
    X = np.array([[2.0, 0.0], [-1.0, 5.0], [-1.0, -5.0]])  # of equal mass: by coordinates
    for order in ([0, 1, 2], [2, 0, 1]):
        found = MeanShift(bandwidth=0.1).fit(X[order])
        np.testing.assert_allclose(found.cluster_centers_, X[[2, 1, 0]], atol=1e-12)
        assert found.labels_.tolist() == [[2, 1, 0][k] for k in order]


GOOD = np.eye(3)


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({}, np.ones(4), "X must be a matrix"),
        ({}, np.ones((0, 2)), "X must hold at least one point"),
        ({}, [[1.0, np.nan]], "X must be finite"),
        ({"beta": 1.0, "bandwidth": 1.0}, GOOD, "beta or bandwidth"),
        ({"beta": -1.0}, GOOD, "beta must be"),
        ({"bandwidth": 0}, GOOD, "bandwidth must be"),
        ({"geometry": "torus"}, GOOD, "geometry must be"),
        ({"geometry": "sphere"}, 2 * GOOD, "rows of length 1"),
        ({"step": 1.5}, GOOD, "step must lie"),
        ({"tol": 0}, GOOD, "tol must be"),
        ({"max_iter": 0}, GOOD, "max_iter must be"),
        ({"merge_tolerance": np.inf}, GOOD, "merge_tolerance must be"),
    ],
)
def test_wrong_input(options, X, message):
    with pytest.raises(ValueError, match=message):
        MeanShift(**options).fit(X)


def test_wrong_weights_and_too_early_a_predict():
    for weights in ([1.0, 2.0], [-1.0, 1.0, 1.0], [0.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match="sample_weight"):
            MeanShift().fit(GOOD, sample_weight=weights)
    with pytest.raises(ValueError, match="call fit"):
        MeanShift().predict(GOOD)
    with pytest.raises(ValueError, match="expecting 3 features"):
        MeanShift().fit(GOOD).predict(np.ones((2, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MeanShift(beta=1e6).fit_predict(GOOD).tolist() == [2, 1, 0]  # by coordinates
