"""Derivatives of mean and covariance by A, V, Q, K, the first mean and the first covariance."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import tokenfield as tkf

from .compare import SHORT, column_error, error, in_both_modes, jacobians
from .gaussians import MATRICES, closed_form, run, split

D, T = 2, 0.7
MEAN, COV = np.array([0.4, -0.3]), np.array([[0.7, 0.1], [0.1, 0.3]])
A = np.array([[-0.5, 0.9], [-0.2, 0.3]])
V = np.array([[0.8, -0.3], [0.5, 0.6]])  # commutes with neither A nor COV
Q, K = np.array([[0.6, -0.4], [0.1, 0.9]]), np.array([[-0.5, 0.3], [0.7, 0.4]])
GIVEN = {
    "softmax": [A, V],
    "sinkhorn": [A, V],
    "linear": [A, V],
    "l2": [Q, K, V],
    "multi_head": [A, V, 0.5 * Q, -0.4 * K],
}
PLAIN = {"softmax": tkf.Softmax, "sinkhorn": tkf.Sinkhorn, "linear": tkf.Linear}


def parameters(kernel, cov=COV, *rest):
    return np.concatenate([MEAN, cov.ravel(), *(M.ravel() for M in GIVEN[kernel]), rest])


def build(kernel, p, noise=False):
    mean, cov, matrices, rest = split(p, D, MATRICES[kernel])
    if kernel == "l2":
        attention = tkf.L2(Q=matrices[0], K=matrices[1], V=matrices[2])
    elif kernel == "multi_head":
        heads = [tkf.Softmax(A=A, V=V) for A, V in (matrices[:2], matrices[2:])]
        attention = tkf.MultiHead(heads)
    else:
        attention = PLAIN[kernel](A=matrices[0], V=matrices[1])
    return tkf.Transformer(attention, noise=tkf.EuclideanNoise(rest[0]) if noise else None), tkf.Gaussian(mean, cov)


def moments(state):
    return jnp.concatenate([state.mean, state.cov.ravel()])


@functools.cache
def program(kernel):
    """`(p, t1) -> moments at t1`, with derivatives by p: one program for all tests."""
    return in_both_modes(lambda p, t1: moments(tkf.solve(*build(kernel, p), t1, **SHORT).final))


@pytest.mark.parametrize(
    "kernel", [pytest.param(name, marks=pytest.mark.slow if name == "multi_head" else ()) for name in GIVEN]
)
def test_every_kernel_against_the_variational_equation(kernel):
    p = parameters(kernel)
    value, exact = run(kernel, p, D, T)
    reached, modes = program(kernel)(p, T)
    assert np.abs(reached - value).max() < 1e-10
    for mode, found in modes.items():
        assert column_error(found, exact) < 1e-8, mode


def test_with_noise():
    """`Sigma'` gains `(2/kappa) I`; kappa is one of the parameters."""
    p = parameters("softmax", COV, 3.0)
    value, exact = run("softmax", p, D, T, noise=True)
    reached, modes = jacobians(lambda p: moments(tkf.solve(*build("softmax", p, True), T, **SHORT).final), p)
    assert np.abs(reached - value).max() < 1e-10
    for mode, found in modes.items():
        assert column_error(found, exact) < 1e-8, mode


@in_both_modes
def softmax_with_a_multiple_of_the_identity(p):
    """The covariance at T, for V = v I."""
    S = p[5:].reshape(2, 2)
    model = tkf.Transformer(tkf.Softmax(A=p[:4].reshape(2, 2), V=p[4] * jnp.eye(2)))
    return tkf.solve(model, tkf.Gaussian(MEAN, (S + S.T) / 2), T, **SHORT).final.cov


@pytest.mark.parametrize("cov", [COV, np.eye(2)], ids=["generic", "equal eigenvalues"])
def test_softmax_against_the_closed_form(cov):
    """`Sigma = (Sigma_0^{-1} - t v (A + A^T))^{-1}`, V = v I, in every direction of A and Sigma_0, and by v.

    At `Sigma_0 = I` the eigenvectors of a covariance have no derivative, but Sigma(t) has.
    """
    v = 0.8
    end, by_A, by_v, by_cov = closed_form(MEAN, cov, A, v, T)
    units = np.eye(4).reshape(4, 2, 2)
    columns = [by_A(E) for E in units] + [by_v] + [by_cov((E + E.T) / 2) for E in units]
    reached, modes = softmax_with_a_multiple_of_the_identity(np.concatenate([A.ravel(), [v], cov.ravel()]))
    assert error(reached, end) < 1e-10
    for mode, found in modes.items():
        assert column_error(found, np.stack(columns, -1)) < 1e-8, mode


def test_a_number_for_V():
    """`V = v`, a number: the flow takes another way than for a matrix."""
    _, _, by_v, _ = closed_form(MEAN, COV, A, 0.8, T)
    model = lambda v: tkf.Transformer(tkf.Softmax(A=A, V=v))  # noqa: E731
    final = lambda p: tkf.solve(model(p[0]), tkf.Gaussian(MEAN, COV), T, **SHORT).final.cov  # noqa: E731
    for mode, found in jacobians(final, [0.8])[1].items():
        assert error(found[..., 0], by_v) < 1e-8, mode


def test_the_mean_against_its_closed_form():
    """A symmetric, commuting with Sigma_0: `alpha(t) = e^t Sigma(t)^{1/2} Sigma_0^{-1/2} alpha_0`, linear in alpha_0."""
    symmetric = 0.6 * np.eye(2) - 0.8 * COV
    end = closed_form(MEAN, COV, symmetric, 1.0, T)[0]
    exact = np.exp(T) * scipy.linalg.sqrtm(end) @ np.linalg.inv(scipy.linalg.sqrtm(COV))
    model = tkf.Transformer(tkf.Softmax(A=symmetric))
    reached, modes = jacobians(lambda m: tkf.solve(model, tkf.Gaussian(m, COV), T, **SHORT).final.mean, MEAN)
    assert error(reached, exact @ MEAN) < 1e-10
    for mode, found in modes.items():
        assert error(found, exact) < 1e-8, mode


def test_a_singular_covariance():
    """Sigma_0 of rank 1: right by all else, and by Sigma_0 where the rank stays. Elsewhere forward mode says NaN, not 0."""
    singular = np.outer([1.0, 0.5], [1.0, 0.5])
    p = parameters("softmax", singular)
    _, exact = run("softmax", p, D, 0.4)
    found = {mode: np.asarray(matrix) for mode, matrix in program("softmax")(p, 0.4)[1].items()}
    for mode, matrix in found.items():
        assert column_error(matrix[:, 6:14], exact[:, 6:14]) < 1e-8, mode
    assert np.isnan(found["forward"][2:, 2:6]).all()
    e = np.zeros_like(p)
    e[2:6] = (np.outer([1.0, 0.5], [0.3, -0.4]) + np.outer([0.3, -0.4], [1.0, 0.5])).ravel()
    model = tkf.Transformer(tkf.Softmax(A=p[6:10].reshape(2, 2), V=p[10:].reshape(2, 2)))
    covariance = lambda s: (p + s * e)[2:6].reshape(2, 2)  # noqa: E731
    final = lambda s: tkf.solve(model, tkf.Gaussian(p[:2], covariance(s)), 0.4, **SHORT).final  # noqa: E731
    assert error(jax.jacfwd(lambda s: final(s).cov)(0.0).ravel(), (exact @ e)[2:]) < 1e-8
    assert error((found["reverse"] @ e)[2:], (exact @ e)[2:]) < 1e-8


def test_the_reference_is_the_closed_form():
    p = np.concatenate([MEAN, COV.ravel(), A.ravel(), 0.8 * np.eye(2).ravel()])
    value, slope = run("softmax", p, D, T)
    end, by_A, by_v, by_cov = closed_form(MEAN, COV, A, 0.8, T)
    assert error(value[2:].reshape(2, 2), end) < 1e-12
    for k, E in enumerate(np.eye(4).reshape(4, 2, 2)):
        assert error(slope[2:, 2 + k].reshape(2, 2), by_cov((E + E.T) / 2)) < 1e-11
        assert error(slope[2:, 6 + k].reshape(2, 2), by_A(E)) < 1e-11
    assert error((slope[2:, 10] + slope[2:, 13]).reshape(2, 2), by_v) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("kernel", GIVEN)
def test_the_reference_has_the_slope_of_its_values(kernel):
    """Central differences of fourth order of the reference's own values."""
    p, h, rng = parameters(kernel), 1e-3, np.random.default_rng(0)
    e = rng.standard_normal(len(p))
    at = lambda s: run(kernel, p + s * h * e, D, T, rtol=1e-11)[0]  # noqa: E731
    slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    assert error(run(kernel, p, D, T, rtol=1e-11)[1] @ e, slope) < 1e-8


@pytest.mark.parametrize(
    ("kernel", "given", "t", "value"),
    [("l2", [-0.6, 0.8, 1.1], 1.0, 0.4357743954), ("sinkhorn", [0.7, 1.0], 2.0, 24.40185777)],
)
def test_the_reference_has_the_known_values(kernel, given, t, value):
    """FORMULAS §5, d = 1."""
    cov = {"l2": 0.9, "sinkhorn": 1.0}[kernel]
    assert abs(run(kernel, [0.0, cov, *given], 1, t)[0][1] / value - 1) < 1e-9


def test_second_derivatives_are_refused():
    model = tkf.Transformer(tkf.Softmax(A=A, V=V))
    trace = lambda s: jnp.trace(tkf.solve(model, tkf.Gaussian(MEAN, s * COV), 0.1).final.cov)  # noqa: E731
    with pytest.raises(RuntimeError, match="no second derivatives"):
        jax.jacfwd(jax.jacfwd(trace))(1.0)
