"""Layers on Gaussians, on densities and on tokens at equal angles, against layers written out."""

import mpmath as mp
import numpy as np
import pytest

import tokenfield as tkf

from . import build
from .draws import Head, generator, log_uniform, matrix, share
from .references import densities, layers_of_states


@share(4)
def test_gaussian_layers(seed):
    """Any kernel that keeps Gaussians, and softmax with A symmetric in closed form."""
    rng = generator("gaussian layers", seed)
    d, h, depth = int(rng.integers(1, 4)), float(rng.uniform(0.05, 0.8)), int(rng.integers(1, 5))
    root, kernel = rng.normal(size=(d, d)), ("softmax", "l2", "sinkhorn", "linear")[seed % 4]
    cov, mean = root @ root.T / d + 0.05 * np.eye(d), rng.normal(size=d)
    matrices = {"Q": matrix(rng, d), "K": matrix(rng, d)} if kernel == "l2" else {"A": matrix(rng, d)}
    head = Head(kernel, V=matrix(rng, d), **matrices)
    run = tkf.layers(tkf.Transformer(build.attention_head(head)), tkf.Gaussian(mean, cov), depth, h)
    m, S = mean, cov
    for _ in range(depth):
        m, S = layers_of_states.gaussian_layer((head,), None, m, S, h)
    bound = 1e-9 * np.abs(S).max() * np.linalg.cond(cov)
    np.testing.assert_allclose(run.final.cov, S, rtol=0, atol=bound)
    np.testing.assert_allclose(run.final.mean, m, rtol=1e-9, atol=1e-9 * np.abs(m).max())

    A, v = matrix(rng, d), float(rng.choice([-0.7, 1.1]))
    S, head = cov, Head("softmax", A=A + A.T, V=v)
    for _ in range(depth):
        S = layers_of_states.gaussian_layer((head,), None, mean, S, h)[1]
    np.testing.assert_allclose(
        tkf.theory.gaussian_layers(A + A.T, v, cov, h, depth), S, rtol=0, atol=1e-9 * np.abs(S).max()
    )
    b = np.linalg.eigvals(v * cov @ (A + A.T)).real
    steps = tkf.theory.gaussian_steps(A + A.T, v, cov)
    if b.max() > 1e-9 * np.abs(b).max():
        assert steps.blow_up == 0
    else:
        assert steps.blow_up == pytest.approx(-2 / b.min() if b.any() else np.inf, rel=1e-9)


def heads(rng, number):
    """tokenfield's attention, and the same as functions of the cosine."""
    beta, v, b = float(rng.uniform(0.2, 2.0)), float(rng.uniform(-0.8, 1.0)), float(rng.uniform(0.5, 3.0))
    kinds = (
        (tkf.L2(beta, V=v), (lambda u: np.exp(2 * beta * u), True, v)),
        (tkf.Sigmoid(b, V=v), (lambda u: 1 / (1 + np.exp(-b * u)), False, v)),
        (tkf.Sigmoid(b, V=v, normalized=True), (lambda u: 1 / (1 + np.exp(-b * u)), True, v)),
        (tkf.Softmax(beta, V=v), (lambda u: np.exp(beta * u), True, v)),
        (tkf.Unnormalized(beta / 2, V=v), (lambda u: np.exp(beta * u / 2), False, v)),
    )
    if number < 3:
        return kinds[number][0], [kinds[number][1]]
    chosen = [kinds[k] for k in rng.choice(len(kinds), 2, replace=False)]
    outputs = rng.uniform(-1, 1, 2)
    plain = [
        (phi, normalized, float(W) * factor) for W, (_, (phi, normalized, factor)) in zip(outputs, chosen, strict=True)
    ]
    return tkf.MultiHead([head for head, _ in chosen], [float(W) for W in outputs]), plain


@share(8)
def test_densities_of_any_kernel(seed):
    """One layer, and a short flow, on the circle and on the 2-sphere."""
    rng = generator("density kernels", seed)
    attention, plain = heads(rng, (seed // 2) % 4)
    model, a = tkf.Transformer(attention, norm=tkf.PostLN()), rng.uniform(-0.3, 0.3, 3)
    if seed % 2 == 0:
        law = lambda x: 1 + a[0] * x[:, 0] + a[1] * x[:, 0] * x[:, 1] + a[2] * x[:, 1]  # noqa: E731
        start = tkf.CircleDensity.from_function(lambda t: law(np.stack([np.cos(t), np.sin(t)], -1)), 24)
        x, w = densities.circle_nodes(200)
    else:
        law = lambda x: 1 + a[0] * x[:, 0] + a[1] * x[:, 0] * x[:, 1] + a[2] * x[:, 2]  # noqa: E731
        start, (x, w) = tkf.SphereDensity.from_function(law, 8), densities.sphere_nodes(16)
    p = w * law(x)
    found = tkf.layers(model, start, 1, 0.3).final
    moved = layers_of_states.nodes_layer(plain, x, p, 0.3)
    np.testing.assert_allclose(
        densities.moments(x, w * found.density(x)), densities.moments(moved, p), rtol=0, atol=1e-8, err_msg=str(seed)
    )
    t1 = 0.2
    end = tkf.simulate(model, start, t1, save_at=2, rtol=1e-8, atol=1e-10).final
    moved = densities.carried_by(plain, x, p, t1)
    np.testing.assert_allclose(
        densities.moments(x, w * end.density(x)), densities.moments(moved, p), rtol=0, atol=3e-7, err_msg=str(seed)
    )


@share(4)
def test_noise_that_depends_on_place_on_the_circle(seed):
    rng = generator("uneven noise", seed)
    kappa, S, g = float(np.exp(rng.uniform(0, 2))), rng.normal(size=(2, 2)), rng.uniform(-0.3, 0.3, 2)
    t, start = 2 * np.pi * np.arange(128) / 128, lambda t: 1 + 0.3 * np.cos(t) - 0.2 * np.sin(2 * t)
    tangent = np.stack([-np.sin(t), np.cos(t)], -1)
    strength = lambda x: 1 + g[0] * x[0] + g[1] * x[1] ** 2  # noqa: E731
    place = (1 + g[0] * np.cos(t) + g[1] * np.sin(t) ** 2) ** 2 / kappa
    noise, D, sense = [
        (tkf.AnisotropicNoise(kappa, S), ((tangent @ S) ** 2).sum(1) / kappa, "ito"),
        (tkf.MultiplicativeNoise(kappa, strength), place, "ito"),
        (tkf.MultiplicativeNoise(kappa, strength, sense="stratonovich"), place, "stratonovich"),
    ][seed % 3]
    beta, t1 = float(rng.uniform(0.2, 1.5)), float(rng.uniform(0.2, 0.6))
    model = tkf.Transformer(tkf.Softmax(beta), tkf.PostLN(), noise=noise)
    run = tkf.simulate(model, tkf.CircleDensity.from_function(start, 48), t1, save_at=2, rtol=1e-8, atol=1e-10)
    assert run.times[-1] == t1
    expected = densities.uneven_circle(beta, D, start(t), t1, sense)
    found = run.final.density(np.stack([np.cos(t), np.sin(t)], 1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * expected.max(), err_msg=str(seed))


@share(4)
def test_steps_of_layers(seed):
    """Period two, and the factors of small waves."""
    rng = generator("steps", seed)
    n, beta = int(rng.integers(2, 9)), log_uniform(rng, 0.3, 6.0)
    steps = tkf.theory.critical_steps(beta, n)
    h = float(steps.period_two + rng.uniform(0.05, 0.95) * (2 - steps.period_two))
    found = tkf.theory.period_two(h, beta, n)
    once = layers_of_states.equal_angle_layer(found.cosine, n, beta, h)
    assert float(once) == pytest.approx(found.cosine, abs=1e-9)
    step = mp.mpf("1e-8")
    up, down = (layers_of_states.equal_angle_layer(found.cosine + sign * step, n, beta, h) for sign in (1, -1))
    assert abs(float((up - down) / (2 * step))) == pytest.approx(abs(found.multiplier), rel=1e-5, abs=1e-7)

    d, v, attention = int(rng.integers(2, 8)), float(rng.choice([-1.0, 0.7])), ("softmax", "unnormalized")[seed % 2]
    h = float(rng.uniform(0.1, 0.9))
    factors = tkf.theory.layer_factors(beta, d, h, v, attention, modes=4)
    expected = [float(layers_of_states.wave_factor(k, beta, d, h, v, attention)) for k in range(5)]
    np.testing.assert_allclose(factors, expected, rtol=1e-9)
    steps = tkf.theory.density_steps(beta, d)
    assert float(layers_of_states.wave_factor(steps.degree, beta, d, steps.alternate, -1, "softmax")) == pytest.approx(
        -1
    )
    others = [float(layers_of_states.wave_factor(k, beta, d, steps.alternate, -1, "softmax")) for k in range(1, 12)]
    assert min(others) > -1 - 1e-9
