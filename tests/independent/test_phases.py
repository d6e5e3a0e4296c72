"""Phases at large A, and sequences like given ones, against plain integrations and loops."""

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm

import tokenfield as tkf

from .draws import generator, share


@share(4)
def test_alignment(seed):
    """`x ∝ e^{s VA} x_0` with `dt = |Ax| ds`, and the rate of what is left."""
    rng = generator("alignment", seed)
    d = int(rng.integers(2, 5))
    A, V = np.eye(d) + 0.3 * rng.normal(size=(d, d)), np.eye(d) + 0.3 * rng.normal(size=(d, d))
    values, vectors = np.linalg.eig(V @ A)
    order = np.argsort(-values.real)
    if abs(values[order[0]].imag) > 0 or values.real[order[0]] - values.real[order[1]] < 0.1:
        A, V = np.diag(np.arange(d, 0.0, -1.0)), np.eye(d)
        values, vectors = np.linalg.eig(V @ A)
        order = np.argsort(-values.real)
    x = rng.normal(size=d)
    x /= np.linalg.norm(x)

    def carried(s):
        y = expm(s * V @ A) @ x
        return y / np.linalg.norm(y)

    clock = lambda s, _: [np.linalg.norm(A @ carried(s))]  # noqa: E731
    for s in (0.4, 1.5):
        t = solve_ivp(clock, (0, s), [0.0], rtol=1e-10, atol=1e-12).y[0, -1]
        found = tkf.theory.alignment_path(x[None], A, V, [0.0, t])[-1, 0]
        np.testing.assert_allclose(found, carried(s), atol=1e-7, err_msg=str(seed))
    found, u = tkf.theory.alignment(A, V), vectors[:, order[0]].real
    u /= np.linalg.norm(u)
    assert abs(found.basis[:, 0] @ u) == pytest.approx(1, abs=1e-9)
    assert found.eigenvalue == pytest.approx(values.real[order[0]], rel=1e-10)
    gap = values.real[order[0]] - values.real[order[1]]
    assert found.rate == pytest.approx(gap / np.linalg.norm(A @ u), rel=1e-8)


@share(3)
def test_collapse_of_a_bump(seed):
    """`∫ dw / (v w - c s w/(1 + s))`, `s = beta w²`."""
    rng = generator("collapse", seed)
    v = float(rng.uniform(0.5, 2.0))
    beta, c = float(np.exp(rng.uniform(2, 8))), v if seed % 3 == 0 else float(rng.uniform(-1.0, v))
    wide, narrow = 0.2, 0.2 * float(np.exp(-rng.uniform(0.5, 6)))

    def per_log_width(u):
        s = beta * np.exp(2 * u)
        return (1 + s) / (v + (v - c) * s)

    expected = quad(per_log_width, np.log(narrow), np.log(wide), epsabs=0, epsrel=1e-12, limit=400)[0]
    assert tkf.theory.collapse_time(wide, narrow, beta, c, v) == pytest.approx(expected, rel=1e-9)


@share(2)
def test_correlations_of_sequences(seed):
    rng = generator("sequences", seed)
    parts = [rng.normal(size=(int(rng.integers(4, 9)), 3)).cumsum(0) for _ in range(3)]
    mean = np.mean([row for part in parts for row in part], axis=0)
    length = min(len(part) for part in parts)
    sums = [
        sum((part[i] - mean) @ (part[i + k] - mean) for part in parts for i in range(len(part) - k))
        for k in range(length)
    ]
    np.testing.assert_allclose(
        tkf.lipschitz.correlation_by_distance(parts), np.array(sums) / sums[0], rtol=1e-12, atol=1e-14
    )
    draws = np.stack([np.asarray(tkf.lipschitz.sequence_model(parts)(length, k).x) for k in range(400)])
    assert np.abs(draws.mean((0, 1)) - mean).max() < 5 * draws.std() / np.sqrt(400)
    off = draws - mean
    scale = sum(((row - mean) ** 2).sum() for part in parts for row in part) / sum(map(len, parts))
    for k in range(length):
        exact = scale * sums[k] / sums[0]
        products = np.einsum("rid,rid->r", off[:, : length - k], off[:, k:]) / (length - k)
        assert abs(products.mean() - exact) < 5 * products.std() / np.sqrt(400)
