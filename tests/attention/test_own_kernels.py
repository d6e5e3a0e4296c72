"""Kernels of a user's own: right in every path, or refused with the reason."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import A, D, V, gamma, tokens, velocity
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tokenfield.attention import AbstractGeneralHead, AbstractPairwise
from tokenfield.attention.parameters import Bilinear, SquaredDistance, ValueMap
from tokenfield.flows import segments
from tokenfield.lipschitz import local


class SquaredReLU(AbstractPairwise):
    stochastic: ClassVar[bool] = True

    def phi(self, s):
        return jnp.maximum(s, 0) ** 2


class Cauchy(AbstractPairwise):
    stochastic: ClassVar[bool] = True

    def phi(self, s):
        return 1 / (1 + s**2)


PHI = {SquaredReLU: lambda s: np.maximum(s, 0) ** 2, Cauchy: lambda s: 1 / (1 + s**2)}
kernels = pytest.mark.parametrize("kernel", PHI)


def rows(kernel, x, w, A, causal=False):
    c = w * PHI[kernel](x @ A.T @ x.T) * (np.tri(len(x)) if causal else 1)
    return c / np.maximum(c.sum(1, keepdims=True), 1e-300)


@kernels
def test_normalized_kernels_agree_with_loops(kernel):
    rng = np.random.default_rng(0)
    for beta in rng.uniform(-9, 9, 4):
        for unit in (True, False):
            state = tokens(n=9, unit=unit, seed=int(100 * abs(beta)))
            x, w = np.asarray(state.x), np.asarray(state.weights)
            expected = rows(kernel, x, w, beta * np.eye(D)) @ x
            np.testing.assert_allclose(gamma(kernel(beta), state, unit=unit), expected, rtol=0, atol=1e-13)
    general, masked = kernel(A=A, V=V), kernel(A=A, V=V, causal=True)
    np.testing.assert_allclose(gamma(general, state), rows(kernel, x, w, A) @ x @ V.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gamma(masked, state), rows(kernel, x, w, A, True) @ x @ V.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tkf.attention_matrix(state, masked), rows(kernel, x, w, A, True), rtol=0, atol=1e-13)


@kernels
@pytest.mark.parametrize("d", [3, 257], ids=["strips", "blocks"])
def test_normalized_kernels_in_blocks(kernel, d):
    state = tokens(n=1100, d=d)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    found = gamma(kernel(5.0), state, unit=True)
    np.testing.assert_allclose(found, rows(kernel, x, w, 5 * np.eye(d)) @ x, rtol=0, atol=1e-13)


@kernels
@pytest.mark.parametrize("causal", [False, True])
def test_local_constant_of_normalized_kernels(kernel, causal):
    state = tokens(n=6, unit=False)
    w = state.weights
    attention = kernel(A=A, V=V, causal=causal)

    def f(x):
        c = w * attention.phi(x @ A.T @ x.T) * (jnp.tri(6) if causal else 1)
        total = c.sum(1, keepdims=True)
        return jnp.where(total > 0, c / jnp.where(total > 0, total, 1), 0) @ x @ V.T

    root = np.repeat(np.sqrt(np.asarray(w)), D)
    jacobian = root[:, None] * np.asarray(jax.jacfwd(f)(state.x)).reshape(6 * D, 6 * D) / root
    assert local(attention, state).constant == pytest.approx(np.linalg.norm(jacobian, 2), rel=1e-9)


@kernels
def test_normalized_kernels_move_equal_angles_as_tokens(kernel):
    for rho, n, beta in ((0.3, 4, 2.0), (-0.1, 5, -3.0)):
        model = tkf.Transformer(kernel(beta, V=0.7), norm=tkf.PostLN())
        few, many = tkf.Equiangular(rho, n), tkf.equiangular_tokens(rho, n)
        (segment,) = segments(few, model)
        moved, x = velocity(model, many), np.asarray(many.x)
        rate = -float(segment.flow.velocity(jnp.zeros(()), segment.flow.pack(few)).u)
        assert rate == pytest.approx(moved[0] @ x[1] + x[0] @ moved[1], rel=1e-12)
        assert abs(rate) > 0.01


@kernels
def test_normalized_kernels_in_rescaled_variables(kernel):
    state, head = tokens(n=5, unit=False), kernel(A=A, V=0.5)
    z = np.asarray(state.x)
    x = np.exp(0.5 * 0.6) * z
    P = rows(kernel, x, np.asarray(state.weights), A)
    found = velocity(tkf.Transformer(head, norm=tkf.Rescaled()), state, t=0.6)
    np.testing.assert_allclose(found, 0.5 * (P @ z - z), rtol=0, atol=1e-12)


class Coordinates(AbstractGeneralHead):
    """`Gamma_i = sum_j w_j e^{beta<x_i,x_j>} tanh(x_j)`, coordinate by coordinate: scores are isotropic, the head is not."""

    score: Bilinear
    value: ValueMap
    causal: bool = eqx.field(static=True)
    stochastic: ClassVar[bool] = False

    def average(self, t, x, mu, positions, values):
        q, k, _ = self.score.factors(t, x, mu.x)
        return (mu.weights * jnp.exp(q @ k.T)) @ jnp.tanh(3 * values)


def test_a_head_is_not_taken_for_isotropic_because_its_score_is():
    rng = np.random.default_rng(2)
    x0, w = rng.standard_normal((3, 7)) / 2, np.full(3, 1 / 3)
    head = Coordinates(Bilinear(0.4), ValueMap(), False)
    field = lambda t, y: ((w * np.exp(0.4 * (x := y.reshape(3, 7)) @ x.T)) @ np.tanh(3 * x)).ravel()  # noqa: E731
    expected = solve_ivp(field, (0, 0.2), x0.ravel(), rtol=1e-11, atol=1e-12).y[:, -1].reshape(3, 7)
    run = tkf.simulate(tkf.Transformer(head), tkf.Tokens(x0), 0.2, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(run.final.x, expected, rtol=0, atol=1e-8)
    assert not head.isotropic
    with pytest.raises(tkf.NoClosedEquation, match="only isotropic attention"):
        tkf.simulate(tkf.Transformer(head, norm=tkf.PostLN()), tkf.Equiangular(0.1, 3), 0.5)
    with pytest.raises(tkf.NoClosedEquation, match=r"depends on scores and distances only .* got Coordinates"):
        tkf.simulate(tkf.Transformer(head, norm=tkf.Rescaled()), tkf.Tokens(x0), 0.5)


def test_what_would_be_taken_for_something_else_is_refused():
    with pytest.raises(TypeError, match="Sharper cannot derive from Softmax, which is final"):
        type("Sharper", (tkf.Softmax,), {"phi": lambda self, s: s})
    with pytest.raises(
        TypeError, match="Mine overrides average, which is final: derive from AbstractGeneralHead instead"
    ):
        type("Mine", (AbstractPairwise,), {"average": lambda self, *a: 0, "phi": lambda self, s: s, "stochastic": True})

    class Gauss(AbstractPairwise):
        stochastic: ClassVar[bool] = False

        def __init__(self):
            self.score, self.value, self.causal = SquaredDistance(1.0), ValueMap(), False

        def phi(self, s):
            return jnp.exp(s)

    with pytest.raises(ValueError, match="Gauss cannot take SquaredDistance as its score"):
        Gauss()
