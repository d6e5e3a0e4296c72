"""Pathwise derivatives of random runs: the same increments, another parameter."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import tokenfield as tkf

from .compare import SHORT, column_error, error, jacobians
from .variational import one_by_one, sensitivity

V = np.array([[-0.9, 0.4], [-0.2, -0.6]])
X0, KAPPA, T, DT = np.array([[0.8, -0.5]]), 2.5, 1.0, 0.05
P = np.concatenate([V.ravel(), [KAPPA], X0.ravel()])


def linear(p):
    """One token under softmax attends to itself: `dX = V X dt + sqrt(2/kappa) dB`, Ornstein–Uhlenbeck."""
    model = tkf.Transformer(tkf.Softmax(beta=1.0, V=p[:4].reshape(2, 2)), noise=tkf.EuclideanNoise(p[4]))
    return model, tkf.Tokens(p[5:].reshape(1, 2))


def euler(p, pushes):
    """X_T of the Euler scheme with given increments of B, and its derivatives by p: both recursions by hand."""
    V, kappa, x = p[:4].reshape(2, 2), p[4], p[5:].copy()
    S = np.zeros((2, 7))
    S[:, 5:] = np.eye(2)
    for dB in pushes:
        S = S + DT * V @ S
        S[0, 0:2] += DT * x  # by the rows of V
        S[1, 2:4] += DT * x
        S[:, 4] -= np.sqrt(2 / kappa) / (2 * kappa) * dB
        x = x + DT * V @ x + np.sqrt(2 / kappa) * dB
    return x, S


def test_the_euler_scheme_step_by_step():
    """The increments are read off a run without drift, so that the test knows nothing of how keys are used."""
    times = DT * np.arange(21)
    still = np.concatenate([np.zeros(4), P[4:]])
    options = {"key": jax.random.key(3), "dt": DT, "method": "euler"}
    path = np.asarray(tkf.solve(*linear(jnp.asarray(still)), T, save_at=times, **options).states.x)[:, 0]
    assert path.shape == (21, 2)
    pushes = np.diff(path, axis=0) / np.sqrt(2 / KAPPA)
    assert 0.3 < pushes.var() / DT < 3  # 40 normal numbers of variance dt
    value, exact = euler(P, pushes)
    reached, modes = jacobians(lambda p: tkf.solve(*linear(p), T, **options).final.x[0], P)
    assert error(reached, value) < 1e-12
    for mode, found in modes.items():
        assert error(found, exact) < 1e-10, mode


def ornstein_uhlenbeck(p):
    """`(m, C)` at T as one vector (6,), with derivatives (6, 7): `m' = V m`, `C' = V C + C V^T + (2/kappa) I`, C(0) = 0."""

    def rate(z):
        m, C, V, kappa = z[:2], z[2:6].reshape(2, 2), z[6:10].reshape(2, 2), z[10]
        return np.concatenate([V @ m, (V @ C + C @ V.T + 2 / kappa * np.eye(2)).ravel()])

    slope = np.zeros((6, 7))
    slope[:2, 5:] = np.eye(2)
    start = np.concatenate([p[5:], np.zeros(4)])
    return sensitivity(lambda t, Y, Q: one_by_one(rate)(np.concatenate([Y, Q], 1)), 0.0, T, start, p, slope)


def test_the_mean_of_pathwise_gradients_is_the_gradient_of_the_mean():
    """`d E|X_T|^2 / d (V, kappa, x)` from the moments of Ornstein–Uhlenbeck, within four standard errors."""

    def square(p, key):
        return (tkf.solve(*linear(p), T, key=key, dt=DT, method="heun").final.x ** 2).sum()

    keys = jax.random.split(jax.random.key(0), 4096)
    values, found = jax.jit(jax.vmap(jax.value_and_grad(square), (None, 0)))(jnp.asarray(P), keys)
    values, found = np.asarray(values), np.asarray(found)
    moments, slope = ornstein_uhlenbeck(P)
    m, trace = moments[:2], moments[2] + moments[5]
    within = lambda a, exact: np.abs(a.mean(0) - exact) / (a.std(0, ddof=1) / np.sqrt(len(a)))  # noqa: E731
    assert within(values, m @ m + trace) < 4
    assert within(found, 2 * m @ slope[:2] + slope[2] + slope[5]).max() < 4
    assert found.std(0, ddof=1).min() > 0  # each key has a path of its own


def test_one_number_with_noise_against_its_closed_form():
    """`s' = -c s^2 + k`, c = -2 v a, k = 2/kappa: `s = sqrt(k/c) tanh(sqrt(k c) t + artanh(s_0 sqrt(c/k)))`."""

    def closed(a, v, kappa, s):
        c, k = -2 * v * a, 2 / kappa
        return mp.sqrt(k / c) * mp.tanh(mp.sqrt(k * c) * T + mp.atanh(s * mp.sqrt(c / k)))

    p = [-0.7, 0.9, 2.0, 0.4]
    exact = [float(mp.diff(closed, tuple(p), tuple(int(i == j) for j in range(4)))) for i in range(4)]

    def final(p):
        model = tkf.Transformer(tkf.Softmax(A=p[:1, None], V=p[1:2, None]), noise=tkf.EuclideanNoise(p[2]))
        return tkf.solve(model, tkf.Gaussian([0.0], p[3:, None]), T, **SHORT).final.cov[0, 0]

    reached, modes = jacobians(final, p)
    assert abs(reached - float(closed(*p))) < 1e-11
    for mode, found in modes.items():
        assert np.abs(found / exact - 1).max() < 1e-8, mode


@pytest.mark.slow
@pytest.mark.parametrize("method", ["euler", "heun"])
def test_noise_on_the_sphere(method):
    """With one key a run is a smooth function of beta and kappa: central differences of fourth order."""
    start = tkf.uniform_sphere(4, 3, seed=1).x

    def final(p):
        model = tkf.Transformer(tkf.Softmax(beta=p[0]), norm=tkf.PostLN(), noise=tkf.SphereNoise(p[1]))
        return tkf.solve(model, tkf.Tokens(start), 0.5, key=jax.random.key(5), dt=DT, method=method).final.x.ravel()

    p, h, at = np.array([1.5, 4.0]), 1e-3, jax.jit(final)
    slope = [(8 * (at(p + e) - at(p - e)) - (at(p + 2 * e) - at(p - 2 * e))) / (12 * h) for e in h * np.eye(2)]
    for mode, found in jacobians(final, p)[1].items():
        assert column_error(found, np.stack(slope, 1)) < 1e-9, mode
