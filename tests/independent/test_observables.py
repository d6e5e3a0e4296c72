"""Observables of tokens against their definitions."""

import numpy as np
import pytest

import tokenfield as tkf

from .draws import generator, log_uniform, matrix, share, signed, tokens, weights
from .references import gaussians, observables

SHAPES = ((5, 3), (2, 2))


def cloud(rng, unit):
    """Tokens with weights; every pair has mass."""
    n, d = SHAPES[rng.integers(len(SHAPES))]
    x, w = tokens(rng, n, d, unit), weights(rng, n)
    if np.count_nonzero(w) < 2 or np.sort(w)[-2] < 1e-12:
        w = rng.dirichlet(np.ones(n))
    return x, w


@share(28)
def test_observables(seed):
    rng = generator("observables", seed)
    x, w = cloud(rng, unit=bool(seed % 2))
    state, d = tkf.Tokens(x, w), x.shape[1]
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert tkf.order_parameter(state) == pytest.approx(np.linalg.norm(w @ u), abs=1e-14)
    assert tkf.mean_cosine(state) == pytest.approx(observables.mean_cosine(x, w), rel=1e-11, abs=1e-13)
    pairs = observables.cosines(x)[np.triu_indices(len(x), 1)]
    np.testing.assert_allclose(tkf.pairwise_cosines(state), pairs, rtol=0, atol=1e-14)
    for centered in (False, True):
        if np.linalg.norm(x - w @ x) > 1e-5 or not centered:
            rank = observables.effective_rank(x, w, centered)
            assert tkf.effective_rank(state, centered=centered) == pytest.approx(rank, rel=1e-7), seed

    beta = signed(rng, 1e-3, 30.0)
    expected = observables.energy(x, w, beta * np.eye(d), beta)
    assert tkf.energy(state, beta) == pytest.approx(float(expected), rel=1e-12)
    assert tkf.energy(state, tkf.Softmax(beta=beta)) == pytest.approx(float(expected), rel=1e-12)
    less = expected - np.longdouble(0.5) / beta
    assert tkf.energy(state, beta, centered=True) == pytest.approx(float(less), rel=1e-12, abs=2e-15 / abs(beta))
    A = matrix(rng, d)
    A, c = A + A.T, float(rng.uniform(0.3, 2.0))
    if np.abs(A).max() > 0:
        assert tkf.energy(state, tkf.Unnormalized(A=A, V=A / c)) == pytest.approx(
            float(observables.energy(x, w, A, c)), rel=1e-11
        )
        skew = A + np.triu(np.ones((d, d)), 1)
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            tkf.energy(state, tkf.Softmax(A=skew, V=skew))
    if seed % 2:
        beta = log_uniform(rng, 1e-3, 1e4)
        s = (x.astype(np.longdouble) @ x.T - 1) * beta
        assert tkf.normalized_energy(state, beta) == pytest.approx(float(w @ np.exp(s) @ w), rel=1e-13 * (10 + beta))


@share(14)
def test_groups_of_tokens(seed):
    """Clusters, centers and leaders, with ties only where tokens coincide."""
    rng = generator("groups", seed)
    n, d = int(rng.integers(2, 12)), int(rng.integers(2, 4))
    places = rng.normal(size=(int(rng.integers(1, n + 1)), d))
    x = places[rng.integers(0, len(places), n)] + log_uniform(rng, 1e-6, 0.3) * rng.normal(size=(n, d))
    metric, tol = str(rng.choice(["cosine", "distance"])), log_uniform(rng, 1e-4, 0.3)
    w = weights(rng, n)
    close = 1 - observables.cosines(x) if metric == "cosine" else observables.distances(x, x, "euclidean")
    expected = observables.clusters(close, tol)
    found = tkf.clusters(tkf.Tokens(x, w), tol=tol, metric=metric)
    same = expected[:, None] == expected[None]
    np.testing.assert_array_equal(found.labels[:, None] == found.labels[None], same)
    members = np.unique(expected, return_counts=True)[1]
    assert (found.count, found.single_tokens) == ((members > 1).sum(), (members == 1).sum())
    assert sorted(found.sizes) == sorted(members)
    np.testing.assert_allclose(sorted(found.masses), sorted(w[expected == k].sum() for k in set(expected)), atol=1e-14)

    delta = float(rng.uniform(0.05, 2.0))
    for strong in (False, True):
        np.testing.assert_array_equal(
            tkf.renyi_centers(tkf.Tokens(x), delta, strong=strong), observables.centers(x, delta, strong)
        )
    A = matrix(rng, d)
    np.testing.assert_array_equal(tkf.leaders(tkf.Tokens(x), A), observables.leaders(x, A))


@share(22)
def test_wasserstein(seed):
    rng = generator("wasserstein", seed)
    d, p = int(rng.integers(1, 4)), float(rng.choice([1.0, 2.0, rng.uniform(1.0, 4.0)]))
    n, m = int(rng.integers(1, 8)), int(rng.integers(1, 8))
    equal = rng.uniform() < 0.3
    m = n if equal else m
    x, y = tokens(rng, n, d, False), tokens(rng, m, d, False)
    a, b = (np.full(n, 1 / n), np.full(m, 1 / m)) if equal else (weights(rng, n), weights(rng, m))
    metric = "geodesic" if d > 1 and rng.uniform() < 0.5 else "euclidean"
    expected = observables.wasserstein(x, a, y, b, p, metric)
    found = tkf.wasserstein(tkf.Tokens(x, a), tkf.Tokens(y, b), p=p, metric=metric)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-7 ** (1 / p)), seed
    assert tkf.wasserstein(tkf.Tokens(x, a), tkf.Tokens(x, a), p=p) == pytest.approx(0.0, abs=1e-12 ** (1 / p))

    means, roots = rng.normal(size=(2, d)), rng.normal(size=(2, d, d))
    if rng.uniform() < 0.3:
        roots[0][:, 0] = 0.0
    covs = roots @ roots.transpose(0, 2, 1)
    one, two = (tkf.Gaussian(means[k], covs[k]) for k in (0, 1))
    assert tkf.wasserstein(one, two) == pytest.approx(observables.bures(means[0], covs[0], means[1], covs[1]), rel=1e-6)
    values = np.linalg.eigvalsh(gaussians.root(covs[1] + np.outer(means[1], means[1])))
    share_ = np.abs(values) / np.abs(values).sum()
    share_ = share_[share_ > 0]
    assert tkf.effective_rank(two) == pytest.approx(np.exp(-(share_ * np.log(share_)).sum()), rel=1e-7)


@share(3)
def test_wasserstein_on_the_circle(seed):
    """Densities and tokens on the circle, from quantile functions by root finding."""
    rng = generator("circle distance", seed)
    p = float(rng.choice([1.0, 2.0, 1.5]))
    laws, states = [], []
    for _ in range(2):
        a, b = rng.uniform(-0.3, 0.3, (2, 2))

        def mass(t, a=a, b=b):
            k = np.arange(1, 3)[:, None]
            return (t + (a[:, None] / k * np.sin(k * t) + b[:, None] / k * (1 - np.cos(k * t))).sum(0)) / (2 * np.pi)

        grid = np.linspace(0, 2 * np.pi, 40_001)
        laws.append(lambda u, v=mass(grid), g=grid: np.interp(u, v, g))
        states.append(
            tkf.CircleDensity.from_function(
                lambda t, a=a, b=b: (
                    1 + a[0] * np.cos(t) + a[1] * np.cos(2 * t) + b[0] * np.sin(t) + b[1] * np.sin(2 * t)
                ),
                8,
            )
        )
    expected = observables.circle_wasserstein(*laws, p)
    assert tkf.wasserstein(*states, p=p) == pytest.approx(expected, rel=1e-5)
