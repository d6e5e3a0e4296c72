"""Layers on densities of the 2-sphere: naive double sums, zonal densities, folds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows.layers import layer_flow

HEADS = {
    "softmax": (tkf.Softmax(1.5, V=0.7), [(lambda u: np.exp(1.5 * u), True, 0.7)]),
    "heads": (
        tkf.MultiHead([tkf.Unnormalized(1.0), tkf.Sigmoid(2.0, normalized=True)], [-0.2, 1.0]),
        [(np.exp, False, -0.2), (lambda u: 1 / (1 + np.exp(-2 * u)), True, 1.0)],
    ),
}


def model(head):
    return tkf.Transformer(head, norm=tkf.PostLN())


def law(x):
    return np.exp(0.5 * x[:, 2] + 0.4 * x[:, 0] * x[:, 1] - 0.2 * x[:, 0])


def nodes(count):
    t, w = np.polynomial.legendre.leggauss(count)
    a = np.pi * np.arange(2 * count) / count
    r = np.sqrt(1 - t**2)[:, None]
    x = np.stack([r * np.cos(a), r * np.sin(a), np.broadcast_to(t[:, None], (count, 2 * count))], axis=-1)
    return x.reshape(-1, 3), np.repeat(w / (4 * count), 2 * count)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
def test_moments_against_a_naive_double_sum(name):
    head, kernels = HEADS[name]
    found = tkf.layers(model(head), tkf.SphereDensity.from_function(law, 12), depth=1, step=0.3).final
    x, w = nodes(26)
    p = w * law(x)
    p /= p.sum()
    gamma = np.zeros_like(x)
    for phi, normalized, factor in kernels:
        k = phi(x @ x.T) * p
        gamma += factor * (k @ x) / (k.sum(1, keepdims=True) if normalized else 1.0)
    x = x + 0.3 * gamma
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    exact = np.asarray(found.harmonics.moments(x, p))[:, :6, :6]
    np.testing.assert_allclose(np.asarray(found.coefficients)[:, :6, :6], exact, atol=1e-9)


@pytest.mark.slow
def test_a_zonal_density_has_the_same_layers():
    zonal = tkf.ZonalDensity.from_function(lambda t: np.exp(0.6 * t), 20, 3)
    sphere = tkf.SphereDensity.from_function(lambda x: np.exp(0.6 * x[:, 2]), 20)
    kind, points = model(tkf.Softmax(1.0)), np.asarray(tkf.uniform_sphere(20, 3, seed=0).x)
    ends = [tkf.layers(kind, each, 2, 0.3).final.density(points) for each in (zonal, sphere)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("V", [1.0, -1.0])
def test_a_fold_begins_where_that_of_a_zonal_density_does(V):
    """About another axis, so that the fold is not on the nodes of one circle of latitude."""
    axis, kind = np.array([0.6, 0.0, 0.8]), model(tkf.Softmax(1.5, V=V))
    step = tkf.theory.fold_step(kind, tkf.ZonalDensity.from_function(lambda t: np.exp(2 * t), 30, 3))
    start = tkf.SphereDensity.from_function(lambda x: np.exp(2 * x @ axis), 20)
    flow = layer_flow(start, kind)
    folds = jax.jit(lambda h: flow.folds(jnp.zeros(()), start.coefficients, h))
    assert [bool(folds(share * step)) for share in (0.5, 0.98, 1.03)] == [False, False, True]
