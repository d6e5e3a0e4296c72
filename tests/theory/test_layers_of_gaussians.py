"""Layers on Gaussians in closed form, beside the naive recursion and runs of layers."""

import math

import numpy as np
import pytest

import tokenfield as tkf

A, COV = np.array([[-1.0, 0.4], [0.4, 0.3]]), np.array([[0.7, 0.1], [0.1, 0.3]])


def naive(A, v, cov, h, depth):
    for _ in range(depth):
        T = np.eye(len(cov)) + h * v * cov @ A
        cov = T @ cov @ T.T
    return cov


@pytest.mark.parametrize("v", [1.0, -0.8])
@pytest.mark.parametrize("cov", [COV, np.outer([0.6, -0.3], [0.6, -0.3]), np.zeros((2, 2))])
def test_against_the_naive_recursion(v, cov):
    for depth in (0, 1, 6):
        found = tkf.theory.gaussian_layers(A, v, cov, 0.3, depth)
        np.testing.assert_allclose(found, naive(A, v, cov, 0.3, depth), rtol=1e-11, atol=1e-15)


def test_small_steps_are_the_flow():
    exact = tkf.theory.gaussian_closed_form(A, None, COV, 0.5)
    errors = [np.abs(tkf.theory.gaussian_layers(A, None, COV, 0.5 / k, k) - exact).max() for k in (1000, 2000)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=2e-3)


@pytest.mark.parametrize("share", [0.2, 0.7, 0.97])
def test_the_limit_is_that_of_the_flow_whatever_the_step(share):
    rng = np.random.default_rng(3)
    root, G = rng.standard_normal((4, 4)), rng.standard_normal((2, 4))
    P, cov = G.T @ G, root @ root.T
    h = share * tkf.theory.gaussian_steps(-P, None, cov).blow_up
    limit = tkf.theory.gaussian_limit(-P, None, cov)
    far = [np.abs(tkf.theory.gaussian_layers(-P, None, cov, h, k) - limit).max() for k in (10_000, 20_000)]
    assert far[0] < 0.02
    assert far[0] / far[1] == pytest.approx(2, rel=0.05)


def test_steps_at_which_behavior_changes():
    steps = tkf.theory.gaussian_steps(-A @ A, None, COV)
    b = np.linalg.eigvals(-COV @ A @ A).real.min()
    assert steps.overshoot == pytest.approx(-1 / b, rel=1e-12)
    assert steps.blow_up == pytest.approx(-2 / b, rel=1e-12)
    run = lambda share: tkf.layers(  # noqa: E731
        tkf.Transformer(tkf.Softmax(A=-A @ A)), tkf.Gaussian([0.0, 0.0], COV), 300, share * steps.blow_up
    )
    assert not run(0.97).events
    assert run(1.03).events[0].kind == "blow_up"
    np.testing.assert_allclose(
        run(0.97).final.cov, tkf.theory.gaussian_layers(-A @ A, None, COV, 0.97 * steps.blow_up, 300), atol=1e-12
    )
    assert tkf.theory.gaussian_steps(1.0, None, COV) == (math.inf, 0.0)
    assert tkf.theory.gaussian_steps(0.0, None, COV) == (math.inf, math.inf)
    assert tkf.theory.gaussian_steps(A, None, COV).blow_up == 0.0


def test_what_is_refused():
    with pytest.raises(ValueError, match="A must be symmetric"):
        tkf.theory.gaussian_layers([[0.0, 1.0], [0.0, 0.0]], None, COV)
    with pytest.raises(ValueError, match="V must be a number"):
        tkf.theory.gaussian_steps(A, np.eye(2), COV)
    with pytest.raises(ValueError, match="the covariance overflows within 60 layers"):
        tkf.theory.gaussian_layers(1.0, None, COV, 1.0, 60)
