"""Layers on tokens at equal angles and on Gaussians: tokens themselves, naive recursions, closed forms, the flow as h -> 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import RULES

import tokenfield as tkf

KERNELS = {
    "softmax": tkf.Softmax(2.0, V=-0.7),
    "usa": tkf.Unnormalized(1.5),
    "sigmoid": tkf.Sigmoid(3.0, normalized=True),
    "sinkhorn": tkf.Sinkhorn(1.0, tolerance=1e-13),
    "heads": tkf.MultiHead([tkf.Softmax(2.0), tkf.ReLU(1.0)], [0.6, -0.8]),
}
SPHERICAL = {name: rule for name, rule in RULES.items() if isinstance(rule, tkf.normalization.AbstractSphereNorm)}
A = np.array([[-0.5, 0.9], [-0.2, 0.3]])
V = np.array([[0.8, -0.3], [0.5, 0.6]])
MEAN, COV = np.array([0.4, -0.3]), np.array([[0.7, 0.1], [0.1, 0.3]])


@pytest.mark.grid
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("norm", [name for name, rule in SPHERICAL.items() if rule.isotropic])
def test_tokens_at_equal_angles_are_tokens(norm, kernel):
    rule = SPHERICAL[norm]
    radius = rule.radius(5)
    start = tkf.Equiangular(0.2, 5, 1.3 if radius is None else float(radius))
    model = tkf.Transformer(KERNELS[kernel], norm=rule)
    short = tkf.layers(model, start, depth=6, step=0.8)
    whole = tkf.layers(model, start.tokens(), depth=6, step=0.8)
    for layer in range(7):
        x = np.asarray(whole.state(layer).x)
        lengths, cosines = np.linalg.norm(x, axis=1), np.asarray(tkf.pairwise_cosines(whole.state(layer)))
        assert np.abs(lengths / float(short.state(layer).radius) - 1).max() < 1e-11
        assert np.abs(cosines - float(short.state(layer).rho)).max() < 1e-11


def test_a_gap_keeps_its_digits():
    """Near one cluster a layer divides the gap by `(1 + h)^2` (FORMULAS §2)."""
    model = tkf.Transformer(tkf.Softmax(3.0), norm=tkf.PostLN())
    run = tkf.layers(model, tkf.Equiangular(1 - 1e-9, 8, gap=1e-9), depth=200, step=1.0)
    gaps = [float(run.state(k).gap) for k in (100, 101)]
    assert gaps[0] < 1e-60
    assert gaps[0] / gaps[1] == pytest.approx(4.0, rel=1e-12)


def test_gaussian_layers_against_a_naive_recursion():
    model, h = tkf.Transformer(tkf.Softmax(A=A, V=V)), 0.4
    run = tkf.layers(model, tkf.Gaussian(MEAN, COV), depth=5, step=h)
    mean, cov = MEAN, COV
    for layer in range(1, 6):
        B = cov @ A
        mean, cov = mean + h * V @ (mean + B @ mean), (np.eye(2) + h * V @ B) @ cov @ (np.eye(2) + h * V @ B).T
        np.testing.assert_allclose(run.state(layer).mean, mean, rtol=1e-12)
        np.testing.assert_allclose(run.state(layer).cov, cov, rtol=1e-12)


@pytest.mark.parametrize(
    "head", [tkf.Softmax(A=A, V=V), tkf.L2(Q=A, K=V), tkf.Sinkhorn(A=A, V=V), tkf.Linear(A=A, V=V)]
)
def test_layers_tend_to_the_flow(head):
    start, model = tkf.Gaussian(MEAN, COV), tkf.Transformer(head)
    exact = tkf.simulate(model, start, 0.5, save_at=2, rtol=1e-10, atol=1e-12).final.cov
    errors = [np.abs(tkf.layers(model, start, k, 0.5 / k).final.cov - exact).max() for k in (64, 128, 256)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.abs(orders - 1).max() < 0.05


def test_the_step_at_which_a_contracting_gaussian_turns_over():
    """`sigma <- sigma |1 - h k sigma^2|`, V A = -k: to 0 below `h = 2/(k sigma^2)`, at rest there, to infinity above."""
    k, variance = 0.8, 1.5
    critical = 2 / (k * variance)
    model = tkf.Transformer(tkf.Softmax(A=[[0.4]], V=-2.0))
    run = lambda h: tkf.layers(model, tkf.Gaussian([0.0], [[variance]]), depth=40, step=h)  # noqa: E731
    assert float(run(0.98 * critical).final.cov[0, 0]) < 0.2 * variance
    assert run(1.02 * critical).events[0].kind == "blow_up"
    one = tkf.layers(model, tkf.Gaussian([0.0], [[variance]]), depth=1, step=critical)
    assert float(one.final.cov[0, 0]) == pytest.approx(variance, rel=1e-14)


def test_gradient_by_the_step():
    model = tkf.Transformer(tkf.Softmax(2.0), norm=tkf.PreLN())
    end = lambda h: tkf.solve(model, tkf.Equiangular(0.1, 6), 4 * h, method=tkf.Layers(h)).final.rho  # noqa: E731
    slope = (end(0.5 + 1e-5) - end(0.5 - 1e-5)) / 2e-5
    assert float(jax.grad(end)(jnp.array(0.5))) == pytest.approx(float(slope), rel=1e-8)


def test_what_layers_cannot_do():
    with pytest.raises(ValueError, match="does not stay Gaussian"):
        tkf.layers(tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN()), tkf.Gaussian([0.0], [[1.0]]), 3)
    noisy = tkf.Transformer(tkf.Softmax(1.0), noise=tkf.EuclideanNoise(1.0))
    with pytest.raises(ValueError, match="layers has no noise"):
        tkf.layers(noisy, tkf.Gaussian([0.0], [[1.0]]), 3)
    with pytest.raises(ValueError, match="unit sphere, got radius"):
        tkf.layers(tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN()), tkf.Equiangular(0.0, 4, 2.0), 3)
