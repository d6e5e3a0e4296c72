"""Layers on densities: naive quadrature, tokens at quantiles, other resolutions, the flow as h -> 0, folds, small waves."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import roots_gegenbauer

import tokenfield as tkf
from tokenfield.flows.layers import layer_flow

HEADS = {
    "softmax": tkf.Softmax(2.0, V=0.7),
    "usa": tkf.Unnormalized(1.5, V=-0.2),
    "sigmoid": tkf.Sigmoid(4.0, normalized=True),
    "heads": tkf.MultiHead([tkf.L2(1.0), tkf.Sigmoid(3.0), tkf.Linear(2.0)], [0.5, -1.0, 0.3]),
}


def kernels(name, u):
    """`(phi(u), divided by its integral, factor)` of the heads, for cosines u."""
    sigmoid = lambda s: 1 / (1 + np.exp(-s))  # noqa: E731
    return {
        "softmax": [(np.exp(2 * u), True, 0.7)],
        "usa": [(np.exp(1.5 * u), False, -0.2)],
        "sigmoid": [(sigmoid(4 * u), True, 1.0)],
        "heads": [(np.exp(2 * u), True, 0.5), (sigmoid(3 * u), False, -1.0), (2 * u, False, 0.3)],
    }[name]


def model(head):
    return tkf.Transformer(head, norm=tkf.PostLN())


def circle(a):
    return np.stack([np.cos(a), np.sin(a)], axis=1)


@pytest.mark.parametrize("name", HEADS)
def test_moments_of_the_circle_against_a_naive_double_sum(name):
    law = lambda a: np.exp(0.8 * np.cos(a) + 0.3 * np.sin(2 * a))  # noqa: E731
    found = tkf.layers(model(HEADS[name]), tkf.CircleDensity.from_function(law, 48), depth=2, step=0.4).final
    a = np.arange(500) * (2 * np.pi / 500)
    p, x = law(a) / law(a).sum(), circle(a)
    for _ in range(2):
        gamma = np.zeros_like(x)
        for phi, normalized, factor in kernels(name, x @ x.T):
            pull = phi @ (p[:, None] * x)
            gamma += factor * (pull / (phi @ p)[:, None] if normalized else pull)
        x = x + 0.4 * gamma
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    angle = np.arctan2(x[:, 1], x[:, 0])
    for k in range(10):
        exact = (1 if k == 0 else math.sqrt(2)) * np.array([p @ np.cos(k * angle), p @ np.sin(k * angle)])
        np.testing.assert_allclose(found.coefficients[:, k], exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [3, 6])
def test_heights_of_zonal_tokens_against_a_naive_double_integral(d):
    """One layer on rings about the axis: `<x, y> = t t' + cos s s'`, the cosine with its own law."""
    law, h = lambda t: np.exp(t + 0.4 * t**2), 0.6
    start = tkf.ZonalDensity.from_function(law, 40, d)
    found = tkf.layers(model(HEADS["softmax"]), start, depth=1, step=h).final
    t, w = roots_gegenbauer(90, d / 2 - 1)
    turn, share = roots_gegenbauer(40, (d - 3) / 2)
    p, share, s = w * law(t) / (w * law(t)).sum(), share / share.sum(), np.sqrt(1 - t**2)
    kernel = np.exp(2 * (t[:, None, None] * t[:, None] + turn * s[:, None, None] * s[:, None])) * p[:, None] * share
    Z = kernel.sum((1, 2))
    along, across = (kernel * t[:, None]).sum((1, 2)) / Z, (kernel * turn * s[:, None]).sum((1, 2)) / Z
    z = np.stack([s + 0.7 * h * across, t + 0.7 * h * along])
    height = z[1] / np.linalg.norm(z, axis=0)
    mean = lambda f: float(np.asarray(found.harmonics.coefficients(f(found.harmonics.t))) @ found.coefficients)  # noqa: E731
    for power in range(5):
        assert mean(lambda u, power=power: u**power) == pytest.approx(p @ height**power, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "heads"])
def test_two_resolutions_of_one_measure(name):
    law = lambda t: np.exp(t + 0.3 * t**2)  # noqa: E731
    moved = lambda start: tkf.layers(model(HEADS[name]), start, depth=2, step=0.3).final  # noqa: E731
    line = np.linspace(-1, 1, 31)
    flat = np.stack([np.sqrt(1 - line**2), line], axis=1)
    round_ = moved(tkf.CircleDensity.from_function(lambda a: law(np.sin(a)), 48))
    assert np.abs(round_.density(flat) - moved(tkf.ZonalDensity.from_function(law, 48, 2)).density(flat)).max() < 1e-9


@pytest.mark.slow
def test_against_tokens_at_the_quantiles():
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.5 * np.cos(a) + 0.3 * np.sin(2 * a), 32)
    run = lambda state: tkf.layers(model(tkf.Softmax(3.0)), state, depth=3, step=0.5)  # noqa: E731
    dense = run(start)
    assert all(abs(float(state.coefficients[0, 0]) - 1) < 1e-14 for state in dense.states)
    errors = []
    for n in (50, 100):
        tokens = run(tkf.circle_tokens(start.angles((np.arange(n) + 0.5) / n)))
        levels = np.sort(np.mod(np.arctan2(tokens.final.x[:, 1], tokens.final.x[:, 0]), 2 * np.pi))
        errors.append(np.abs(np.diff(dense.final.law(levels)[0]) - 1 / n).max() * n)  # mass between neighbors
    assert errors[1] < 0.02
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        tkf.CircleDensity.from_function(lambda a: 1 + 0.3 * np.cos(a) + 0.2 * np.sin(3 * a), 32),
        tkf.ZonalDensity.from_function(lambda t: np.exp(t), 32, 5),
    ],
)
def test_layers_tend_to_the_flow(start):
    kind = model(tkf.Softmax(2.0))
    exact = tkf.simulate(kind, start, 0.4, save_at=2, rtol=1e-10, atol=1e-12).final.coefficients
    errors = [np.abs(tkf.layers(kind, start, k, 0.4 / k).final.coefficients - exact).max() for k in (16, 32, 64)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.abs(orders - 1).max() < 0.08


def around(head, start, h):
    """Angles of a fine circle of tokens after one layer of attention to the density's own weighted tokens."""
    a = np.linspace(0, 2 * np.pi, 4001)
    x, y = circle(a), circle(2 * np.pi * np.arange(600) / 600)
    w = start.density(y) / 600
    z = x + h * np.asarray(head(jnp.zeros(()), jnp.asarray(x), tkf.Tokens(y, w)))
    return np.unwrap(np.arctan2(z[:, 1], z[:, 0]))


@pytest.mark.slow
@pytest.mark.parametrize("V", [1.0, -1.0])
def test_a_layer_folds_where_the_step_says(V):
    head = tkf.Softmax(2.0, V=V)
    start = tkf.CircleDensity.from_function(lambda a: np.exp(4 * np.cos(a) + np.sin(a)), 48)
    step = tkf.theory.fold_step(model(head), start)
    assert np.diff(around(head, start, 0.999 * step)).min() > 0 > np.diff(around(head, start, 1.001 * step)).min()
    flow, zero = layer_flow(start, model(head)), jnp.zeros(())
    assert not bool(jax.jit(lambda h: flow.folds(zero, start.coefficients, h))(0.999 * step))
    found = tkf.layers(model(head), start, depth=3, step=1.001 * step)
    assert [(event.kind, event.time) for event in found.events] == [("fold", pytest.approx(1.001 * step))]
    assert len(found.times) == 1
    assert "use a smaller step" in found.events[0].detail["message"]
    assert tkf.solve(model(head), start, 2.0 * step, method=tkf.Layers(2.0 * step)).reason == "fold"
    assert tkf.layers(model(head), start, depth=1, step=0.4 * step).events == []


@pytest.mark.slow
def test_the_fold_of_one_point_and_of_rings():
    """All mass at one point: `1 + h cos a`, so h = 1. On the sphere a ring may come to the pole first."""
    sharp = tkf.CircleDensity.from_function(lambda a: np.exp(200 * (np.cos(a) - 1)), 200)
    assert tkf.theory.fold_step(model(tkf.Softmax(0.5)), sharp) == pytest.approx(1, abs=1e-2)
    assert tkf.theory.fold_step(model(tkf.Softmax(2.0)), tkf.CircleDensity.uniform(8)) == np.inf
    for V in (1.0, -1.0):
        kind, start = model(tkf.Softmax(2.0, V=V)), tkf.ZonalDensity.from_function(lambda t: np.exp(3 * t), 40, 4)
        step = tkf.theory.fold_step(kind, start)
        flow = layer_flow(start, kind)
        folds = jax.jit(lambda h, flow=flow, start=start: flow.folds(jnp.zeros(()), start.coefficients, h))
        assert [bool(folds(f * step)) for f in (0.5, 0.999, 1.001)] == [False, False, True]


@pytest.mark.parametrize(("d", "beta", "V", "h"), [(2, 3.0, 1.0, 0.7), (2, 4.0, -1.0, 0.9), (5, 2.0, -1.0, 1.3)])
def test_small_waves_have_their_factors(d, beta, V, h):
    uniform = tkf.CircleDensity.uniform(12) if d == 2 else tkf.ZonalDensity.uniform(12, d)
    degree = np.asarray(uniform.harmonics.degree)
    start = uniform.with_coefficients(uniform.coefficients + 1e-6 * ((degree > 0) & (degree < 6)))
    after = tkf.layers(model(tkf.Softmax(beta, V=V)), start, 1, h).final.resized(12).coefficients
    factors = tkf.theory.layer_factors(beta, d, h, V, modes=5)
    for k in range(6):
        np.testing.assert_allclose(after[degree == k], factors[k] * start.coefficients[degree == k], rtol=1e-3)


def test_repulsive_layers_come_to_a_density_of_period_two():
    steps = tkf.theory.density_steps(4.0, 2)
    assert tkf.theory.layer_factors(4.0, 2, steps.alternate, -1.0, modes=[steps.degree])[0] == pytest.approx(-1)
    assert (tkf.theory.layer_factors(4.0, 2, 0.999 * steps.alternate, -1.0) > -1).all()
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.06 * np.cos(3 * a), 64)
    wave = {}
    for f in (0.97, 1.003):
        states = tkf.layers(model(tkf.Softmax(4.0, V=-1.0)), start, 120, f * steps.alternate).states
        wave[f] = [float(state.coefficients[0, 3]) for state in states[-3:]]
    assert abs(wave[0.97][-1]) < 1e-4
    np.testing.assert_allclose(wave[1.003] / np.array(wave[1.003][0]), [1, -1, 1], rtol=2e-3)
    assert abs(wave[1.003][0]) > 0.04


def test_gradient_by_the_step():
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.3 * np.cos(a), 16)
    flow, zero = layer_flow(start, model(tkf.Softmax(1.0))), jnp.zeros(())
    end = jax.jit(lambda h: flow.layer(zero, flow.layer(zero, start.coefficients, h)[0], h)[0][0, 1])
    slope = (end(0.3 + 1e-5) - end(0.3 - 1e-5)) / 2e-5
    assert float(jax.grad(end)(0.3)) == pytest.approx(float(slope), rel=1e-8)


def test_what_is_refused():
    start = tkf.CircleDensity.uniform(8)
    with pytest.raises(ValueError, match=r"norm=PostLN\(\), got PreLN"):
        tkf.layers(tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PreLN()), start, 3)
    with pytest.raises(ValueError, match="layers has no noise"):
        tkf.layers(tkf.Transformer(tkf.Softmax(1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(1.0)), start, 3)
    for state in (start, tkf.ZonalDensity.uniform(8, d=3), tkf.SphereDensity.uniform(8)):
        with pytest.raises(ValueError, match=r"ReLU\(power=2\) is not smooth at 0"):
            tkf.layers(model(tkf.ReLU(1.0, power=2)), state, 3)
    with pytest.raises(ValueError, match="density must be a CircleDensity or a ZonalDensity"):
        tkf.theory.fold_step(model(tkf.Softmax(1.0)), tkf.SphereDensity.uniform(8))
    with pytest.raises(ValueError, match="there is no layer"):
        tkf.theory.layer_factors(4.0, 2, tkf.theory.density_steps(4.0, 2).flip, -1.0)
