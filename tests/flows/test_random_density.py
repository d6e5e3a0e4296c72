"""Densities under common noise: tokens along the same path of the noise, exact moments over paths, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf


def model(attention, kappa=6.0, noise=tkf.CommonNoise):
    return tkf.Transformer(attention, norm=tkf.PostLN(), noise=noise(kappa))


def law(a):
    return np.exp(0.4 * np.cos(a) + 0.2 * np.sin(2 * a))


def circle(a):
    return np.stack([np.cos(a), np.sin(a)], axis=1)


HEADS = {
    "softmax": tkf.Softmax(2.0),
    "heads": tkf.MultiHead([tkf.Unnormalized(1.0), tkf.Sigmoid(3.0, normalized=True)], [-0.5, 1.0]),
}


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("method", ["heun", "euler"])
@pytest.mark.parametrize("name", HEADS)
def test_a_density_and_its_weighted_tokens_are_the_same_along_a_path(name, method):
    """Tokens on a fine grid with the masses of the density, moved by the flow of tokens with the same seed."""
    options = {"seed": 3, "save_at": 3, "dt": 0.02, "method": method}
    dense = tkf.simulate(model(HEADS[name]), tkf.CircleDensity.from_function(law, 64), 0.3, **options)
    a = 2 * np.pi * np.arange(400) / 400
    w = law(a) / law(a).sum()
    tokens = tkf.simulate(model(HEADS[name]), tkf.Tokens(circle(a), w), 0.3, **options)
    for density, moved in zip(dense.states, tokens.states, strict=True):
        exact = np.asarray(density.harmonics.moments(moved.x, moved.weights))[:, :30]
        np.testing.assert_allclose(density.coefficients[:, :30], exact, atol=1e-9)
        assert abs(float(density.coefficients[0, 0]) - 1) < 1e-13


@pytest.mark.slow
def test_tokens_at_the_quantiles_follow_the_random_density():
    """Equal tokens, with the default step, on a path that needs more modes than the start has."""
    kind, start = model(tkf.Softmax(2.0), 4.0), tkf.CircleDensity.from_function(law, 48)
    dense = tkf.simulate(kind, start, 0.6, seed=3, save_at=2).final
    assert dense.modes > 48
    for n, error in (
        (20, 1e-3),
        (80, 1e-10),
    ):  # the quantiles of a smooth density on the circle are a spectral quadrature
        tokens = tkf.circle_tokens(start.angles((np.arange(n) + 0.5) / n))
        found = tkf.simulate(kind, tokens, 0.6, seed=3, save_at=2).final
        assert np.linalg.norm(found.x.mean(0) - np.asarray(dense.coefficients)[:, 1] / np.sqrt(2)) < error


@pytest.mark.slow
def test_coefficients_over_paths_obey_the_heat_equation():
    """Without drift `E p` is the density of independent Brownian motions: `e^{-t/kappa}` for degree 1."""
    kind = model(tkf.Linear(1.0, V=0.0), 8.0)
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.8 * np.cos(a), 64)
    runs = tkf.simulate_many(kind, start, 0.2, seeds=range(300), save_at=[0.2], dt=0.05)
    assert not any(runs.events)
    first = runs.dataset["coefficients"].values[:, 0, 0, 1]
    exact = float(start.coefficients[0, 1]) * np.exp(-0.2 / 8)
    assert abs(first.mean() - exact) < 4 * first.std() / np.sqrt(len(first))
    assert first.std() > 0.05


@pytest.mark.slow
def test_on_the_sphere_too():
    shape = lambda x: 1 + 0.2 * x[:, 0] * x[:, 2]  # noqa: E731
    start = tkf.SphereDensity.from_function(shape, 12)
    kind, options = model(tkf.Softmax(1.0), 200.0), {"seed": 1, "save_at": 2, "dt": 0.02}
    dense = tkf.simulate(kind, start, 0.06, **options).final
    assert dense.modes == 12
    x, w = (np.asarray(part) for part in (start.harmonics.nodes, start.harmonics.node_weights))
    tokens = tkf.simulate(kind, tkf.Tokens(x, w * shape(x)), 0.06, **options).final
    exact = start.harmonics.moments(tokens.x, tokens.weights)
    np.testing.assert_allclose(dense.coefficients, exact, atol=1e-10)
    assert np.abs(dense.coefficients - start.coefficients).max() > 0.01


def test_solve_is_the_same_run():
    start, kind = tkf.CircleDensity.from_function(law, 48), model(tkf.Softmax(1.0), 20.0)
    run = tkf.simulate(kind, start, 0.2, seed=5, save_at=2, dt=0.02).final
    found = tkf.solve(kind, start, jnp.array(0.2), dt=0.02, key=jax.random.key(5)).final
    np.testing.assert_allclose(found.coefficients, run.coefficients, atol=1e-13)


def test_what_is_refused():
    with pytest.raises(
        ValueError, match=r"not that of the axis\. States that do have one: CircleDensity, SphereDensity, T"
    ):
        tkf.simulate(model(tkf.Softmax(1.0)), tkf.ZonalDensity.uniform(16, 3), 1.0, seed=0)
    with pytest.raises(ValueError, match="seed must be given: CommonNoise"):
        tkf.simulate(model(tkf.Softmax(1.0)), tkf.CircleDensity.uniform(16), 1.0)
