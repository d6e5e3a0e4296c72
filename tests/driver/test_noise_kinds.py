"""Common, anisotropic and multiplicative noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from noisy import on_sphere, within

import tokenfield as tkf


@pytest.mark.slow
def test_common_noise_keeps_coinciding_tokens_together_and_moves_each_as_brownian_motion():
    a = tkf.uniform_sphere(20, 3, seed=0).x
    start = tkf.Tokens(jnp.concatenate([a, a]))
    runs = tkf.simulate_many(on_sphere(tkf.CommonNoise(2.0)), start, 1.0, seeds=range(400), save_at=[0, 1], dt=0.05)
    x = runs.dataset["x"].values
    assert np.array_equal(x[:, 1, :20], x[:, 1, 20:])
    kept = (x[:, 1] * x[:, 0]).sum(-1)[:, :20].mean(1)  # tokens of a run are not independent, runs are
    assert within(kept, np.exp(-1.0))
    cosines = x[:, 1, :20] @ x[:, 1, :20].transpose(0, 2, 1)
    assert cosines.mean() > (np.asarray(a @ a.T)).mean() + 0.1


def generator(noise, x, f, h=1e-5):
    """`(E f(X_h) - f(x))/h` over one kick, by Gauss–Hermite quadrature in each normal number."""
    z, w = np.polynomial.hermite_e.hermegauss(8)
    k = noise.draws(1, len(x))[1]
    xi = np.stack(np.meshgrid(*[z] * k, indexing="ij"), -1).reshape(-1, k)
    weight = np.prod(np.meshgrid(*[w / w.sum()] * k, indexing="ij"), axis=0).ravel()
    many = jnp.broadcast_to(x, (len(xi), len(x)))
    return (
        weight
        @ (f(np.asarray(many + noise.displacement(jnp.asarray(xi), many, jnp.asarray(h), tkf.Sphere()))) - f(x))
        / h
    )


def test_anisotropic_noise_has_its_generator():
    rng = np.random.default_rng(2)
    S, c, x = rng.standard_normal((3, 2)), rng.standard_normal(3), np.array([0.6, 0.0, 0.8])
    P, kappa = np.eye(3) - np.outer(x, x), 1.7
    D = P @ S @ S.T @ P
    noise = tkf.AnisotropicNoise(kappa, S)
    assert generator(noise, x, lambda y: y @ c) == pytest.approx(-np.trace(D) * (c @ x) / kappa, rel=1e-3)
    squared = 2 * (c @ D @ c - np.trace(D) * (c @ x) ** 2) / kappa
    assert generator(noise, x, lambda y: (y @ c) ** 2) == pytest.approx(squared, rel=1e-3)
    isotropic = generator(tkf.AnisotropicNoise(kappa, np.eye(3)), x, lambda y: y @ c)
    assert isotropic == pytest.approx(generator(tkf.SphereNoise(kappa), x, lambda y: y @ c), rel=1e-3)


@pytest.mark.parametrize("sense", ["ito", "stratonovich"])
def test_multiplicative_noise_has_its_generator(sense):
    c, x, kappa = np.array([0.3, -1.0, 0.5]), np.array([0.6, 0.0, 0.8]), 1.7
    noise = tkf.MultiplicativeNoise(kappa, lambda x: 1 + 0.5 * x[0] ** 2, sense)
    g, slope = 1 + 0.5 * 0.36, np.array([0.6, 0.0, 0.0])
    slope = slope - (x @ slope) * x
    exact = -2 * g**2 * (c @ x) / kappa + (g * (slope @ c) / kappa if sense == "stratonovich" else 0)
    assert generator(noise, x, lambda y: y @ c) == pytest.approx(exact, rel=1e-3)


@pytest.mark.slow
def test_multiplicative_noise_on_the_circle_settles_where_it_is_weak():
    theta = 2 * np.pi * np.arange(256) / 256
    exact = np.average(np.cos(theta), weights=(1 + 0.6 * np.cos(theta)) ** -2.0)
    model = on_sphere(tkf.MultiplicativeNoise(1.0, weaker_on_the_left))
    runs = tkf.simulate_many(model, tkf.uniform_sphere(16, 2, seed=0), 6.0, seeds=range(300), save_at=[6.0], dt=0.02)
    assert within(runs.dataset["x"].values[..., 0].ravel(), exact)


def weaker_on_the_left(x):
    return 1 + 0.6 * x[0]


@pytest.mark.parametrize("noise", [tkf.SphereNoise(2.0), tkf.CommonNoise(2.0), tkf.EuclideanNoise(2.0)])
def test_a_kick_is_the_displacement_by_the_normal_numbers_of_its_key(noise):
    x, key, h, space = tkf.uniform_sphere(5, 3, seed=0).x, jax.random.key(7), jnp.asarray(0.3), noise.space()
    xi = jax.random.normal(key, noise.draws(5, 3), x.dtype)
    np.testing.assert_allclose(noise.kick(key, x, h, space), noise.displacement(xi, x, h, space), rtol=0, atol=1e-15)
