"""Densities under kernels other than softmax and under several heads: naive quadrature, other resolutions, tokens, refusals."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.attention import AbstractPairwise
from tokenfield.flows import segments


class Cosh(AbstractPairwise):
    """A kernel of a user: `cosh(s)`, normalized."""

    kind, title = "cosh", "cosh"

    def __init__(self, beta):
        super().__init__(beta, normalized=True)

    def phi(self, s):
        return jnp.cosh(s)


HEADS = {
    "l2": tkf.L2(1.5, V=0.7),
    "sigmoid": tkf.Sigmoid(4.0),
    "normalized sigmoid": tkf.Sigmoid(4.0, normalized=True),
    "linear": tkf.Linear(3.0, V=-0.5),
    "own": Cosh(2.0),
    "heads": tkf.MultiHead(
        [tkf.Softmax(2.0), tkf.Unnormalized(1.0), tkf.Sigmoid(3.0, normalized=True), Cosh(1.0)], [0.5, -1.0, 2.0, 0.7]
    ),
}


def model(head):
    return tkf.Transformer(head, norm=tkf.PostLN())


def pulls(name, c):
    """`(phi(beta c), divided by its integral, factor)` of the heads, for a matrix c of cosines."""
    sigmoid = lambda s: 1 / (1 + np.exp(-s))  # noqa: E731
    return {
        "l2": [(np.exp(-1.5 * (2 - 2 * c)), True, 0.7)],
        "sigmoid": [(sigmoid(4 * c), False, 1.0)],
        "normalized sigmoid": [(sigmoid(4 * c), True, 1.0)],
        "linear": [(3 * c, False, -0.5)],
        "own": [(np.cosh(2 * c), True, 1.0)],
        "heads": [
            (np.exp(2 * c), True, 0.5),
            (np.exp(c), False, -1.0),
            (sigmoid(3 * c), True, 2.0),
            (np.cosh(c), True, 0.7),
        ],
    }[name]


@pytest.mark.parametrize("name", HEADS)
def test_moments_move_as_a_naive_double_integral_says(name):
    """On the circle: `d/dt ∫ p cos k a = ∫ p u (-k sin k a)`, u the velocity of tokens by the trapezoidal rule."""
    law = lambda a: np.exp(0.8 * np.cos(a) + 0.3 * np.sin(2 * a))  # noqa: E731
    state = tkf.CircleDensity.from_function(law, 40)
    flow = segments(state, model(HEADS[name]))[0].flow
    a = np.arange(400) * (2 * np.pi / 400)
    p = law(a) / law(a).sum()
    c, s = np.cos(a[:, None] - a), np.sin(a[:, None] - a)
    u = np.zeros_like(a)
    for kernel, normalized, factor in pulls(name, c):
        pull = -(kernel * s) @ p
        u += factor * (pull / (kernel @ p) if normalized else pull)
    found = np.asarray(flow.drift(jnp.zeros(()), state.coefficients)) * np.exp(float(flow.unit))
    for k in range(1, 7):
        exact = [-k * (p * u * np.sin(k * a)).sum(), k * (p * u * np.cos(k * a)).sum()]
        np.testing.assert_allclose(found[:, k] / math.sqrt(2), exact, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sigmoid", "heads"])
def test_two_resolutions_of_one_measure(name):
    law = lambda t: np.exp(t + 0.3 * t**2)  # noqa: E731
    moved = lambda start: tkf.simulate(model(HEADS[name]), start, 0.2, save_at=2, rtol=1e-10, atol=1e-12).final  # noqa: E731
    line = np.linspace(-1, 1, 31)
    side, zero = np.sqrt(1 - line**2), np.zeros(31)
    circle = moved(tkf.CircleDensity.from_function(lambda a: law(np.sin(a)), 64))
    flat = moved(tkf.ZonalDensity.from_function(law, 64, 2))
    points = np.stack([side, line], axis=1)
    assert np.abs(circle.density(points) - flat.density(points)).max() < 1e-8
    zonal = moved(tkf.ZonalDensity.from_function(law, 48, 3))
    sphere = moved(tkf.SphereDensity.from_function(lambda x: law(x[:, 2]), 40))
    points = np.stack([side, zero, line], axis=1)
    assert np.abs(sphere.density(points) - zonal.density(points)).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sigmoid", "heads"])
def test_against_tokens_at_the_quantiles(name):
    """n tokens with the density's own quantiles follow it up to 1/n^2."""
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.5 * np.cos(a) + 0.3 * np.sin(2 * a), 32)
    grid = np.linspace(0, 2 * np.pi, 20001)
    law = np.cumsum(start.density(np.stack([np.cos(grid), np.sin(grid)], 1)))
    errors = []
    for n in (50, 100):
        angles = np.interp((np.arange(n) + 0.5) / n, (law - law[0]) / (law[-1] - law[0]), grid)
        run = lambda state: tkf.simulate(model(HEADS[name]), state, 0.5, save_at=2, rtol=1e-9, atol=1e-11).final  # noqa: E731
        errors.append(abs(tkf.order_parameter(run(tkf.circle_tokens(angles))) - tkf.order_parameter(run(start))))
    assert errors[1] < 3e-4
    assert errors[1] < 0.3 * errors[0]


@pytest.mark.slow
def test_what_is_the_same_gives_the_same():
    """L2 at beta is softmax at 2 beta on the sphere; two half heads are one."""
    start = tkf.ZonalDensity.from_function(lambda t: np.exp(t), 24, 4)
    run = lambda head: np.asarray(tkf.simulate(model(head), start, 0.5, save_at=2).final.coefficients)  # noqa: E731
    plain = run(tkf.Softmax(2.0))
    np.testing.assert_allclose(run(tkf.L2(1.0)), plain, rtol=0, atol=1e-12)
    halves = tkf.MultiHead([tkf.Softmax(2.0), tkf.Softmax(2.0)], [0.5, 0.5])
    np.testing.assert_allclose(run(halves), plain, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_derivative_by_beta():
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.3 * np.cos(a), 16)
    mean = lambda beta: tkf.solve(  # noqa: E731
        model(tkf.Sigmoid(beta, normalized=True)), start, 0.5, rtol=1e-10, atol=1e-12
    ).final.coefficients[0, 1]
    h = 1e-4
    slope = (mean(3.0 + h) - mean(3.0 - h)) / (2 * h)
    assert float(eqx.filter_jit(jax.grad(mean))(3.0)) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (tkf.ReLU(1.0), r"ReLU\(power=1\) is not smooth at 0: .* Use a smooth kernel, Equiangular or Tokens"),
        (tkf.Sigmoid(500.0), "Use a smaller beta"),
        (tkf.Hardmax(), "kernels that are functions of the score, got Hardmax"),
        (tkf.MultiHead([tkf.Softmax(1.0), tkf.Softmax(1.0, causal=True)]), "causal mask"),
        (tkf.MultiHead([tkf.Softmax(1.0)], [np.diag([1.0, 2.0])]), "isotropic attention"),
    ],
)
def test_kernels_that_are_refused(head, words):
    with pytest.raises(ValueError, match=words):
        tkf.simulate(model(head), tkf.CircleDensity.uniform(8), 1.0)
