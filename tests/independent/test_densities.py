"""Densities against moving quadrature nodes and, with noise, against Fourier series on a fine grid."""

import numpy as np
import pytest

import tokenfield as tkf

from . import promise
from .draws import Case, Head, generator, share
from .references import densities, flows, observables

RTOL = 1e-8


def attention(rng, number):
    """A kernel, its beta and tokenfield's object."""
    kernel, beta = ("softmax", "unnormalized")[number % 2], float(rng.uniform(0.2, 2.0))
    kind = tkf.Softmax if kernel == "softmax" else tkf.Unnormalized
    return kernel, beta, kind(beta=beta)


def finish(run, t1, name):
    """Time reached, which is t1 or that of an event "resolution"; the density there is resolved."""
    kind = promise.ending(run, t1, name)
    assert kind in ("end", "resolution"), f"{name}: {run.events}"
    return float(run.times[-1])


def compare(state, nodes, weights, kernel, beta, start, time, name):
    """Moments of a density at a time against those of moving nodes."""
    begin = weights * start(nodes)
    moved = densities.carried(kernel, beta, nodes, begin / begin.sum(), time)
    expected = densities.moments(moved, begin / begin.sum())
    found = densities.moments(nodes, weights * state.density(nodes))
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-7, err_msg=name)
    assert tkf.order_parameter(state) == pytest.approx(np.linalg.norm(expected[: nodes.shape[1]]), abs=3e-7), name


@share(4)
def test_circle_density(seed):
    rng = generator("circle", seed)
    kernel, beta, model = attention(rng, seed)
    a = rng.uniform(-0.25, 0.25, 4)
    nodes, weights = densities.circle_nodes(200)

    def start(x):
        t = np.arctan2(x[:, 1], x[:, 0])
        return 1 + a[0] * np.cos(t) + a[1] * np.sin(t) + a[2] * np.cos(2 * t) + a[3] * np.sin(3 * t)

    state = tkf.CircleDensity.from_function(lambda t: start(np.stack([np.cos(t), np.sin(t)], -1)), 64)
    t1 = float(rng.uniform(0.2, 1.2)) * (1.0 if kernel == "softmax" else np.exp(-beta))
    run = tkf.simulate(tkf.Transformer(model, tkf.PostLN()), state, t1, save_at=3, rtol=RTOL, atol=1e-11)
    compare(run.final, nodes, weights, kernel, beta, start, finish(run, t1, f"circle {seed}"), f"circle {seed}")
    energy = observables.energy(nodes, weights * start(nodes), beta * np.eye(2), beta)
    assert tkf.normalized_energy(state, model) == pytest.approx(float(2 * beta * energy * np.exp(-beta)), rel=1e-10)


@share(4)
def test_zonal_and_sphere_density(seed):
    """A zonal law on the 2-sphere, the same law about another axis as a sphere density, and one without symmetry."""
    rng = generator("sphere", seed)
    kernel, beta, model = attention(rng, seed // 4)
    model = tkf.Transformer(model, tkf.PostLN())
    a, name = rng.uniform(-0.3, 0.3, 2), f"sphere {seed}"
    t1 = float(rng.uniform(0.2, 1.0)) * (1.0 if kernel == "softmax" else np.exp(-beta))
    nodes, weights = densities.sphere_nodes(16)

    def zonal(t):
        return 1 + a[0] * t + a[1] * (t**2 - 1 / 3)

    run = tkf.simulate(model, tkf.ZonalDensity.from_function(zonal, 32, 3), t1, save_at=3, rtol=RTOL, atol=1e-11)
    time = finish(run, t1, name)
    compare(run.final, nodes, weights, kernel, beta, lambda x: zonal(x[:, 2]), time, name)

    b = rng.uniform(-0.3, 0.3, 3)

    def general(x):
        return 1 + x @ b + 0.4 * a[0] * x[:, 0] * x[:, 1] + 0.4 * a[1] * x[:, 2] * (x[:, 0] ** 2)

    for start in (lambda x: zonal(x @ b / np.linalg.norm(b)), general):
        run = tkf.simulate(model, tkf.SphereDensity.from_function(start, 16), t1, save_at=3, rtol=RTOL, atol=1e-11)
        time = finish(run, t1, name)
        compare(run.final, nodes, weights, kernel, beta, start, time, name)


@share(4)
def test_noisy_circle(seed):
    rng = generator("noisy circle", seed)
    kernel, beta, model = attention(rng, seed)
    kappa, a = float(np.exp(rng.uniform(-1, 3))), rng.uniform(-0.3, 0.3, 3)

    def start(t):
        return 1 + a[0] * np.cos(t) + a[1] * np.sin(2 * t) + a[2] * np.sin(t)

    t1 = float(rng.uniform(0.5, 3.0))
    noisy = tkf.Transformer(model, tkf.PostLN(), noise=tkf.SphereNoise(kappa=kappa))
    run = tkf.simulate(noisy, tkf.CircleDensity.from_function(start, 64), t1, save_at=3, rtol=RTOL, atol=1e-11)
    time = finish(run, t1, f"noisy circle {seed}")
    grid = 2 * np.pi * np.arange(128) / 128
    t, expected = densities.noisy_circle(kernel, beta, kappa, start(grid), time)
    found = run.final.density(np.stack([np.cos(t), np.sin(t)], 1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * expected.max(), err_msg=f"noisy circle {seed}")


def test_moving_nodes_are_the_general_reference():
    """The quick sums over nodes are the flow of tokens."""
    rng = generator("nodes", 0)
    x, w = rng.normal(size=(6, 3)), rng.dirichlet(np.ones(6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for kernel in ("softmax", "unnormalized"):
        case = Case("nodes", x, w, None, (Head(kernel, beta=1.3),), norm="post", t1=0.8)
        np.testing.assert_allclose(densities.carried(kernel, 1.3, x, w, 0.8), flows.run(case).x, rtol=0, atol=1e-9)
