"""Normalized kernels and kernels of a user's own: right in every path, or refused with the reason."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import A, Cauchy, D, V, gamma, tokens, velocity
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tokenfield.attention import AbstractGeneralHead, AbstractPairwise
from tokenfield.attention.parameters import Bilinear, SquaredDistance, ValueMap
from tokenfield.flows import segments
from tokenfield.lipschitz import local


def squared_relu(beta=None, **options):
    return tkf.ReLU(beta, power=2, normalized=True, **options)


def cauchy(beta=None, **options):
    return Cauchy(beta, normalized=True, **options)


PHI = {squared_relu: lambda s: np.maximum(s, 0) ** 2, cauchy: lambda s: 1 / (1 + s**2)}
kernels = pytest.mark.parametrize("kernel", PHI, ids=lambda kernel: kernel.__name__)


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


def test_a_normalized_kernel_under_rescaled_variables_is_not_held():
    """Squared ReLU does not see the length of x, so `z' = V (P z - z)` with P at `e^{(V - I) t} z`, however long the run."""
    V, w, t1 = np.diag([1.0, 0.1]), np.full(4, 1 / 4), 40.0
    x0 = np.random.default_rng(0).standard_normal((4, 2))

    def field(t, y):
        z = y.reshape(4, 2)
        return ((rows(squared_relu, z * np.exp((np.diag(V) - 1) * t), w, np.eye(2)) @ z - z) @ V).ravel()

    expected = solve_ivp(field, (0, t1), x0.ravel(), rtol=1e-11, atol=1e-13).y[:, -1].reshape(4, 2)
    model = tkf.Transformer(squared_relu(1.0, V=V), norm=tkf.Rescaled())
    run = tkf.simulate(model, tkf.Tokens(x0), t1, save_at=[t1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(run.final.x, expected, rtol=0, atol=1e-7)
    for kernel, hidden in ((squared_relu, False), (tkf.Softmax, True)):
        model = tkf.Transformer(kernel(1.0, V=lambda t: jnp.asarray(V)), norm=tkf.Rescaled())
        flow = segments(tkf.Tokens(x0), model)[0].flow
        assert bool(flow.limits.hidden(flow.pack(tkf.Tokens(x0))._replace(c=jnp.array([40.0, 4.0])))) == hidden


@pytest.mark.slow
def test_a_row_whose_sum_is_zero_attends_to_nothing():
    """The second token sees negative scores only: it stands still, and Gamma has derivative 0 there, by x and by beta."""
    state = tkf.Tokens([[1.0, 0.2], [-1.0, 0.6], [1.5, 0.4]])
    head = tkf.ReLU(A=np.diag([1.0, -10.0]), power=2, normalized=True)
    for attention in (head, tkf.MultiHead([head], [np.eye(2)])):
        assert (gamma(attention, state)[1] == 0).all()
        assert (np.abs(gamma(attention, state)[[0, 2]]) > 0.1).all()
        slope = jax.jacobian(lambda x: attention.of_itself(jnp.zeros(()), tkf.Tokens(x)))(state.x)  # noqa: B023
        assert np.isfinite(slope).all()
        assert (slope[1] == 0).all()
    np.testing.assert_allclose(tkf.attention_matrix(state, head).sum(1), [1, 0, 1], rtol=1e-15)
    for norm in (tkf.NoNorm(), tkf.PreLN(), tkf.PeriLN()):
        assert (velocity(tkf.Transformer(head, norm=norm), state)[1] == 0).all()
    unit = tkf.Tokens(state.x / np.linalg.norm(state.x, axis=1, keepdims=True))
    for norm in (tkf.PostLN(), tkf.NGPT(0.5)):
        assert (velocity(tkf.Transformer(head, norm=norm), unit)[1] == 0).all()
    opposed = gamma(tkf.ReLU(-1.0, normalized=True), tkf.Tokens([[1.0, 0.0], [0.6, 0.8]]), unit=True)  # on the sphere
    np.testing.assert_array_equal(opposed, np.zeros((2, 2)))


class Coordinates(AbstractGeneralHead):
    """`Gamma_i = sum_j w_j e^{beta<x_i,x_j>} tanh(x_j)`, coordinate by coordinate: scores are isotropic, the head is not."""

    score: Bilinear
    value: ValueMap
    causal: bool = eqx.field(static=True)
    normalized: ClassVar[bool] = False

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
    with pytest.raises(tkf.NoClosedEquation, match="only under isotropic attention"):
        tkf.simulate(tkf.Transformer(head, norm=tkf.PostLN()), tkf.Equiangular(0.1, 3), 0.5)
    with pytest.raises(tkf.NoClosedEquation, match=r"depends on scores and distances only .* got Coordinates"):
        tkf.simulate(tkf.Transformer(head, norm=tkf.Rescaled()), tkf.Tokens(x0), 0.5)


def test_what_would_be_taken_for_something_else_is_refused():
    with pytest.raises(TypeError, match="Sharper cannot derive from Softmax, which is final"):
        type("Sharper", (tkf.Softmax,), {"phi": lambda self, s: s})
    with pytest.raises(
        TypeError, match="Mine overrides average, which is final: derive from AbstractGeneralHead instead"
    ):
        type("Mine", (AbstractPairwise,), {"average": lambda self, *a: 0, "phi": lambda self, s: s})
    with pytest.raises(TypeError, match="Mine overrides softmax, which is final"):
        type("Mine", (AbstractPairwise,), {"softmax": True, "phi": lambda self, s: s})

    class Gauss(AbstractPairwise):
        exponential: ClassVar[bool] = True

        def __init__(self):
            self.score, self.value, self.causal = SquaredDistance(1.0), ValueMap(), False
            self.positions, self.normalized = (), False

        def phi(self, s):
            return jnp.exp(s)

    with pytest.raises(ValueError, match="Gauss cannot use SquaredDistance as its score"):
        Gauss()


NORMALIZED = tkf.ReLU(1.0, power=2, normalized=True)
ON_SPHERE = tkf.Transformer(NORMALIZED, tkf.PostLN())
POINTS = tkf.uniform_sphere(4, 2, seed=0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.ReLU(power=0.5), "power must be a number >= 1, got 0.5"),
        (lambda: tkf.ReLU(power="two"), "power must be a finite number, got 'two'"),
        (lambda: tkf.ReLU(normalized="yes"), "normalized must be True or False, got 'yes'"),
        (lambda: tkf.energy(POINTS, ON_SPHERE), "ReLU attention has no interaction energy: use Softmax or Unnormalized"),
        (lambda: tkf.normalized_energy(POINTS, NORMALIZED), "ReLU attention has no interaction energy"),
        (lambda: tkf.simulate(ON_SPHERE, tkf.CircleDensity.uniform(16), 1.0), "ReLU"),
        (lambda: tkf.simulate(tkf.Transformer(NORMALIZED), tkf.Gaussian(None, np.eye(2)), 1.0), "ReLU"),
        (lambda: tkf.simulate(ON_SPHERE, POINTS, 1.0, method="coarsen"), "Softmax"),
        (lambda: tkf.theory.critical_kappa(1.0, 2, NORMALIZED), 'attention must be "softmax" or "unnormalized", got ReLU'),
        (lambda: tkf.lipschitz.data_bounds(NORMALIZED, POINTS), "Softmax"),
    ],
)  # fmt: skip
def test_what_is_known_for_exponentials_only_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
