"""Finite-time Lyapunov exponents against closed forms."""

import math

import mpmath
import numpy as np
import pytest
from cases import tokens
from scipy.linalg import expm

import tokenfield as tkf
from tokenfield.lipschitz import lyapunov
from tokenfield.lipschitz.products import log_singular_values


def exact_logs(factors):
    """`log sigma` of the product of the factors, the first one acting first, with 150 digits."""
    with mpmath.workdps(150):
        P = mpmath.eye(len(factors[0]))
        for R in factors:
            P = mpmath.matrix(R.tolist()) * P
        return sorted((float(mpmath.log(s)) for s in mpmath.svd_r(P, compute_uv=False)), reverse=True)


@pytest.mark.parametrize(("count", "size"), [(1, 4), (3, 2), (30, 5), (120, 4)])
def test_products_of_random_matrices(count, size):
    """Up to singular values that differ by factors of e^200."""
    rng = np.random.default_rng(count)
    factors = [rng.standard_normal((size, size)) for _ in range(count)]
    np.testing.assert_allclose(log_singular_values(factors), exact_logs(factors), rtol=0, atol=1e-10)


def test_products_with_equal_and_with_vanishing_values():
    rng = np.random.default_rng(3)
    turn = [np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(40)]
    np.testing.assert_allclose(log_singular_values(turn), 0, atol=1e-12)
    scaled = [q @ np.diag([2.0, 2.0, 1.0, 1.0]) for q in turn[:2]]
    np.testing.assert_allclose(log_singular_values(scaled), exact_logs(scaled), atol=1e-12)
    assert log_singular_values([np.diag([3.0, 0.0])]).tolist() == [math.log(3), -math.inf]


@pytest.mark.parametrize("t", [1.0, 50.0])
def test_a_linear_flow(t):
    """One token moves by x' = Vx: the exponents are log sigma(e^{tV})/t, also for e^{tV} of condition e^{50}."""
    V = np.array([[0.3, 2.0], [0.0, -0.7]])
    top = np.linalg.norm(expm(t * V), 2)
    expected = [math.log(top) / t, (np.trace(V) * t - math.log(top)) / t]  # sigma_1 sigma_2 = det
    found = lyapunov(tkf.Transformer(tkf.Softmax(V=V)), [[1.0, 2.0]], t)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=2e-9)
    np.testing.assert_allclose(found.final.x[0], expm(t * V) @ [1, 2], rtol=1e-6)


@pytest.mark.parametrize(("attention", "rate"), [(tkf.Softmax(beta=2.0), 1.0), (tkf.Unnormalized(beta=1.0), math.e)])
def test_collapsed_tokens(attention, rate):
    """All tokens at one point of the sphere: 0 for turning all, -1 (SA) or -e^beta (USA) for differences."""
    x = np.tile([0.0, 0.6, 0.8], (3, 1))
    found = lyapunov(tkf.Transformer(attention, norm=tkf.PostLN()), tkf.Tokens(x, [0.2, 0.5, 0.3]), 40.0)
    np.testing.assert_allclose(found.values, [0, 0, -rate, -rate, -rate, -rate], rtol=0, atol=2e-9 * rate)


def test_two_tokens_on_the_circle():
    """Kuramoto, n = 2: turning both has exponent 0. The angle obeys phi' = -sin phi, so tan(phi/2) shrinks like e^{-t}."""
    phi, t = 2.0, 3.0
    x = np.array([[1.0, 0.0], [math.cos(phi), math.sin(phi)]])
    later = 2 * math.atan(math.tan(phi / 2) * math.exp(-t))
    found = lyapunov(tkf.Transformer(tkf.Unnormalized(beta=0.0), norm=tkf.PostLN()), x, t)
    slope = math.sin(later) / math.sin(phi)  # d phi(t) / d phi(0)
    np.testing.assert_allclose(found.values, [0, math.log(slope) / t], atol=1e-8)


@pytest.mark.slow
def test_against_the_derivative_by_differences():
    """Pre-LN, where lengths evolve, with weights: central differences of `simulate`."""
    model, state, t = tkf.Transformer(tkf.Softmax(beta=1.5), norm=tkf.PreLN()), tokens(n=3, unit=False), 1.0
    run = lambda x: np.asarray(  # noqa: E731
        tkf.simulate(model, tkf.Tokens(x, state.weights), t, save_at=[t], rtol=1e-12, atol=1e-13).final.x
    )
    x, h = np.asarray(state.x), 1e-4
    columns = []
    for index in np.ndindex(3, 3):
        e = np.zeros((3, 3))
        e[index] = h
        columns.append(((run(x + e) - run(x - e)) / (2 * h)).ravel())
    root = np.repeat(np.sqrt(3 * np.asarray(state.weights)), 3)
    J = np.array(columns).T * root[:, None] / root
    found = lyapunov(model, state, t)
    np.testing.assert_allclose(found.values, np.log(np.linalg.svd(J, compute_uv=False)) / t, atol=1e-6)
    np.testing.assert_allclose(lyapunov(model, state, t, k=2).values, found.values[:2], rtol=1e-12)


@pytest.mark.slow
def test_a_flow_that_changes_its_rule():
    """Mix-LN after Post-LN: the exponents of both parts, for tokens at one point, where r grows as r0 + t.

    Post-LN for t < tau: differences e^{-t}. Then theta' = P A/r with r = 1 + s: `v' = (mean - v)/r`, so they shrink by
    1/r in direction, and as displacements r v stay; all together grow with r.
    """
    tau, t = 1.5, 4.0
    x = np.tile([0.0, 1.0], (2, 1))
    found = lyapunov(tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.MixLN(tau)), x, t)
    np.testing.assert_allclose(found.values, [math.log(1 + t - tau) / t, -tau / t], atol=1e-8)


MODEL = tkf.Transformer(tkf.Softmax(), norm=tkf.PostLN())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lyapunov(tkf.Softmax(), np.eye(3), 1.0), "model must be a Transformer"),
        (lambda: lyapunov(MODEL, np.eye(3), 0.0), "t1 must be finite and > 0, got 0.0"),
        (lambda: lyapunov(MODEL, np.eye(3), 1.0, 7), "k must be at most 6, the number of directions, got 7"),
        (lambda: lyapunov(MODEL, np.eye(30), 1.0), "x must have n d <= 600, .* got 30 x 30"),
        (lambda: lyapunov(MODEL, 2 * np.eye(3), 1.0), "token 0 has length 2"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_blow_up_is_reported():
    with pytest.raises(tkf.SolverError, match=r"could not be integrated beyond t = 0\.[45]"):
        lyapunov(tkf.Transformer(tkf.Linear(A=[[1.0]])), [[1.0]], 2.0)
