"""Densities as states: their values, samples, smoothing, and what they refuse."""

import numpy as np
import pytest

import tokenfield as tkf

CIRCLE = tkf.CircleDensity.from_function(lambda t: np.exp(2 * np.cos(t - 1)), 32)
ZONAL = tkf.ZonalDensity.from_function(lambda t: np.exp(2 * t + t**2), 32, 5)
SPHERE = tkf.SphereDensity.from_function(lambda x: np.exp(x @ [1, -2, 0.5] + x[:, 0] * x[:, 1]), 16)


@pytest.mark.slow
@pytest.mark.parametrize("density", [CIRCLE, ZONAL, SPHERE], ids=lambda s: type(s).__name__)
def test_samples_have_the_moments_of_the_density(density):
    n = 40_000
    tokens = density.sample(n, seed=3)
    assert np.abs(np.linalg.norm(tokens.x, axis=1) - 1).max() < 1e-12
    found = np.asarray(density.harmonics.moments(tokens.x, tokens.weights))
    low = (np.asarray(density.harmonics.degree) > 0) & (np.asarray(density.harmonics.degree) < 5)
    spread = np.sqrt((1 + density.density(tokens.x).max()) / n)
    assert np.abs(found - np.asarray(density.coefficients))[low].max() < 4 * spread
    assert np.array_equal(density.sample(50, seed=1).x, density.sample(50, seed=1).x)


def test_values_are_those_of_the_function():
    angle = np.linspace(0, 6, 20)
    exact = np.exp(2 * np.cos(angle - 1)) / np.i0(2)
    assert np.allclose(CIRCLE.density(np.stack([np.cos(angle), np.sin(angle)], 1)), exact, rtol=1e-12)


def test_tokens_spread_by_brownian_motion():
    tokens = tkf.uniform_sphere(7, 3, seed=0)
    density = tkf.SphereDensity.from_tokens(tokens, modes=24, width=0.4)
    assert tkf.order_parameter(density) == pytest.approx(tkf.order_parameter(tokens) * np.exp(-(0.4**2)), rel=1e-12)


def test_order_parameter_and_energy_agree_between_resolutions():
    beta = 3.0
    nodes, weights = np.polynomial.legendre.leggauss(200)
    p = np.exp(nodes + 0.5 * nodes**2)
    p /= (p * weights / 2).sum()
    zonal = tkf.ZonalDensity.from_function(lambda t: np.exp(t + 0.5 * t**2), 40, 3)
    sphere = tkf.SphereDensity.from_function(lambda x: np.exp(x[:, 2] + 0.5 * x[:, 2] ** 2), 24)
    exact = (nodes * p * weights / 2).sum()
    assert tkf.order_parameter(zonal) == pytest.approx(exact, rel=1e-12)
    assert tkf.order_parameter(sphere) == pytest.approx(exact, rel=1e-12)
    assert tkf.normalized_energy(zonal, beta) == pytest.approx(tkf.normalized_energy(sphere, beta), rel=1e-12)
    # the kernel averaged over the circles of latitude is e^{beta t s} I_0(beta sqrt(1-t^2) sqrt(1-s^2))
    side = np.sqrt(1 - nodes**2)
    kernel = np.exp(beta * (np.outer(nodes, nodes) - 1)) * np.i0(beta * np.outer(side, side))
    double = (p * weights / 2) @ kernel @ (p * weights / 2)
    assert tkf.normalized_energy(zonal, beta) == pytest.approx(double, rel=1e-11)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.CircleDensity([[1.0, 2.0], [0.0, 0.0]]), "must not be negative"),
        (lambda: tkf.CircleDensity([[0.5, 0.0], [0.0, 0.0]]), "must have mass 1, got 0.5"),
        (lambda: tkf.ZonalDensity([1.0, np.nan], 3), "must be finite"),
        (lambda: tkf.ZonalDensity([1.0, 0.0], 1), "d must be"),
        (lambda: tkf.CircleDensity.uniform(0), "modes must be"),
        (lambda: tkf.SphereDensity.from_function(lambda x: x[:, 0]), "must not be negative"),
        (lambda: tkf.CircleDensity.from_function(lambda t: 0 * t), "positive mass"),
        (lambda: tkf.CircleDensity.from_tokens(tkf.uniform_sphere(4, 3, seed=0)), "unit vectors in R\\^2"),
    ],
)
def test_bad_input_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("measure", [tkf.clusters, tkf.pairwise_cosines, tkf.mean_cosine, tkf.effective_rank])
def test_observables_of_tokens_refuse_densities(measure):
    with pytest.raises(TypeError, match="not defined for a state of type CircleDensity"):
        measure(CIRCLE)


@pytest.mark.parametrize("kind", [tkf.CircleDensity, tkf.ZonalDensity, tkf.SphereDensity])
def test_a_density_needs_a_function_with_one_real_number_for_each_point(kind):
    with pytest.raises(ValueError, match="function must be a function, got 3"):
        kind.from_function(3)
    for function in (lambda x: "late", lambda x: 1.0, lambda x: np.exp(1j * np.asarray(x).reshape(len(x), -1)[:, 0])):
        with pytest.raises(ValueError, match="must give one finite number for each point, got shape"):
            kind.from_function(function)
