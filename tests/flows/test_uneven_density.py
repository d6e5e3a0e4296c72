"""Densities under noise that depends on place or direction: its generator by derivatives in R^d, laws at rest, tokens, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows.density import density_flow

S = np.array([[1.0, 0.3, 0.1], [0.0, 0.6, -0.4], [0.2, 0.0, 0.3]])
TIGHT = {"rtol": 1e-8, "atol": 1e-10}
POLYNOMIALS = (
    lambda x: x[-1],
    lambda x: x[0] * x[-1],
    lambda x: x[-1] ** 3 + 0.4 * x[0],
    lambda x: x[0] ** 2 * x[1] * x[-1] - x[1] ** 4,
)


def strength(x):
    return 1 + 0.3 * x[0] - 0.2 * x[-1] ** 2


NOISES = {
    "directions": tkf.AnisotropicNoise(2.0, S),
    "singular": tkf.AnisotropicNoise(2.0, [[1.0], [0.5], [0.0]]),
    "place": tkf.MultiplicativeNoise(2.0, strength),
    "Stratonovich": tkf.MultiplicativeNoise(2.0, strength, sense="stratonovich"),
}


def model(noise, attention=None):
    return tkf.Transformer(attention or tkf.Linear(1.0, V=0.0), norm=tkf.PostLN(), noise=noise)


def generator(noise, f, x):
    """What the noise makes of f per unit of time at points x, from derivatives of f(x/|x|) in R^d."""
    extended = lambda x: f(x / jnp.linalg.norm(x))  # noqa: E731

    def at(x):
        P, H, kappa = jnp.eye(len(x)) - jnp.outer(x, x), jax.hessian(extended)(x), noise.kappa
        if isinstance(noise, tkf.AnisotropicNoise):
            return jnp.trace(noise.S @ noise.S.T @ P @ H @ P) / kappa
        g, slope = jax.value_and_grad(noise.g)(x)
        drift = g * slope @ P @ jax.grad(extended)(x) if noise.sense == "stratonovich" else 0.0
        return (g**2 * jnp.trace(P @ H) + drift) / kappa

    return jax.vmap(at)(x)


def law(x):
    return np.exp(0.7 * x[:, -1] + 0.3 * x[:, 0] - 0.4 * x[:, 0] * x[:, -1])


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_moments_of_the_sphere_have_the_generator(name):
    """`d/dt ∫ f p = ∫ (L f) p` for polynomials f, by a quadrature of the sphere."""
    start, fine = tkf.SphereDensity.from_function(law, 20), tkf.SphereDensity.uniform(24).harmonics
    x, w = fine.nodes, fine.node_weights
    flow = density_flow(start, model(NOISES[name]))
    change = start.replaced(flow.velocity(jnp.zeros(()), start.coefficients)).density(x)
    for f in POLYNOMIALS:
        exact = w @ (generator(NOISES[name], f, x) * start.density(x))
        assert float(w @ (change * jax.vmap(f)(x))) == pytest.approx(float(exact), abs=1e-11), name


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 4, 7])
def test_zonal_densities_under_noise_about_their_axis(d):
    """The same in any dimension; a zonal density sees only the height of a point."""
    noise = tkf.AnisotropicNoise(2.0, np.diag(np.append(np.full(d - 1, 0.4), 1.3)))
    start = tkf.ZonalDensity.from_function(lambda t: np.exp(0.8 * t - 0.5 * t**2), 24, d)
    basis = start.harmonics
    flow = density_flow(start, model(noise))
    change = basis.values(flow.velocity(jnp.zeros(()), start.coefficients))
    for f in (lambda x: x[-1], lambda x: x[-1] ** 4):
        exact = basis.node_weights @ (generator(noise, f, basis.nodes) * basis.values(start.coefficients))
        found = basis.node_weights @ (change * jax.vmap(f)(basis.nodes))
        assert float(found) == pytest.approx(float(exact), abs=1e-10)


@pytest.mark.slow
def test_a_zonal_density_is_the_same_on_the_sphere():
    noise, attention = tkf.AnisotropicNoise(1.0, np.diag([0.8, 0.8, 1.2])), tkf.Softmax(1.0)
    zonal = tkf.ZonalDensity.from_function(lambda t: np.exp(0.4 * t), 20, 3)
    sphere = tkf.SphereDensity.from_function(lambda x: np.exp(0.4 * x[:, 2]), 20)
    points = np.asarray(tkf.uniform_sphere(20, 3, seed=0).x)
    options = {"save_at": 2, "rtol": 1e-8, "atol": 1e-10}
    ends = [tkf.simulate(model(noise, attention), each, 0.3, **options).final for each in (zonal, sphere)]
    np.testing.assert_allclose(ends[0].density(points), ends[1].density(points), atol=1e-7)


@pytest.mark.parametrize(("sense", "power"), [("ito", 2), ("stratonovich", 1)])
def test_laws_at_rest_on_the_circle(sense, power):
    """Without drift `1/g²` is at rest in the sense of Itô, and `1/g` in that of Stratonovich."""
    g = lambda x: 1 + 0.4 * x[0] - 0.2 * x[1]  # noqa: E731
    start = tkf.CircleDensity.from_function(lambda a: (1 + 0.4 * np.cos(a) - 0.2 * np.sin(a)) ** -power, 48)
    kind = model(tkf.MultiplicativeNoise(1.0, g, sense=sense))
    moved = lambda start: np.asarray(tkf.simulate(kind, start, 0.3, save_at=2, **TIGHT).final.resized(48).coefficients)  # noqa: E731
    np.testing.assert_allclose(moved(start), start.coefficients, atol=1e-7)
    assert np.abs(moved(tkf.CircleDensity.uniform(48))[:, 1]).max() > 0.02


def test_on_the_sphere_one_over_the_square_is_at_rest():
    start = tkf.SphereDensity.from_function(lambda x: (1 + 0.3 * x[:, 0] - 0.2 * x[:, 2] ** 2) ** -2.0, 24)
    end = tkf.simulate(model(NOISES["place"]), start, 0.3, save_at=2).final.resized(24)
    np.testing.assert_allclose(end.coefficients, start.coefficients, atol=1e-7)


@pytest.mark.slow
def test_strength_one_is_sphere_noise():
    start, ends = tkf.SphereDensity.from_function(law, 16), []
    for noise in (
        tkf.SphereNoise(3.0),
        tkf.AnisotropicNoise(3.0, np.eye(3)),
        tkf.MultiplicativeNoise(3.0, lambda x: 1.0 + 0.0 * x[0], sense="stratonovich"),
    ):
        ends.append(tkf.simulate(model(noise, tkf.Softmax(1.0)), start, 0.3, save_at=2).final.coefficients)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-6)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-6)


@pytest.mark.slow(keep=0)
@pytest.mark.parametrize("name", ["directions", "Stratonovich"])
def test_many_tokens_follow_the_density(name):
    """First and second moments of 20 000 independent tokens under SA, within four standard errors."""
    start, kind, n = tkf.SphereDensity.from_function(law, 16), model(NOISES[name], tkf.Softmax(1.0)), 20_000
    dense = tkf.simulate(kind, start, 0.4, save_at=2).final
    x = np.asarray(tkf.simulate(kind, start.sample(n, seed=1), 0.4, seed=2, save_at=2, dt=0.02).final.x)
    fine = tkf.SphereDensity.uniform(16).harmonics
    for i, j in ((0, None), (1, None), (2, None), (0, 0), (0, 1), (1, 2), (2, 2)):
        f = lambda x, i=i, j=j: x[:, i] * (1.0 if j is None else x[:, j])  # noqa: E731
        exact = float(fine.node_weights @ (f(fine.nodes) * dense.density(fine.nodes)))
        assert abs(f(x).mean() - exact) < 4 * f(x).std() / np.sqrt(n)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"may change around the axis\. States that do have one: CircleDensity, Sph"):
        tkf.simulate(model(NOISES["place"]), tkf.ZonalDensity.uniform(8, 3), 1.0)
