"""Bases of harmonics: orthonormal, exact for products, right eigenvalues, and the same function in different bases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenfield.spectral import CircleHarmonics, SphereHarmonics, ZonalHarmonics

RNG = np.random.default_rng(2)
BASES = [CircleHarmonics(11), ZonalHarmonics(12, 2), ZonalHarmonics(12, 3), ZonalHarmonics(9, 8), SphereHarmonics(7)]


def function(basis):
    return jnp.asarray(RNG.standard_normal(basis.shape)) * (basis.degree >= 0)


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{type(b).__name__}{b.d}")
def test_values_and_coefficients_are_inverse_and_keep_inner_products(basis):
    f, g = function(basis), function(basis)
    assert np.allclose(basis.coefficients(basis.values(f)), f, atol=1e-12)
    assert np.allclose(basis.at(f, basis.nodes), basis.values(f), atol=1e-11)
    mean = basis.coefficients(basis.values(f) * basis.values(g)).reshape(-1)[0]
    assert float(mean) == pytest.approx(float((f * g).sum()), rel=1e-11)


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{type(b).__name__}{b.d}")
def test_moments_are_the_adjoint_of_evaluation_and_resizing_keeps_the_function(basis):
    f, x = function(basis), RNG.standard_normal((20, basis.d))
    x = jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
    w = jnp.asarray(RNG.uniform(size=20))
    assert float((basis.moments(x, w) * f).sum()) == pytest.approx(float(basis.at(f, x) @ w), rel=1e-11)
    finer = basis.resized(basis.modes + 5)
    assert np.allclose(finer.at(basis.embed(f, finer.modes), x), basis.at(f, x), atol=1e-11)
    assert np.array_equal(finer.embed(basis.embed(f, finer.modes), basis.modes), f)


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{type(b).__name__}{b.d}")
def test_each_degree_is_what_the_kernel_makes_it(basis):
    """Funk and Hecke: averaging a function of <x, y> multiplies degree l by one number, here for (<x, y>)^2."""
    x = np.asarray(basis.nodes)[3]
    values = jnp.asarray((np.asarray(basis.nodes) @ x) ** 2)
    found = np.asarray(basis.coefficients(values))
    if isinstance(basis, ZonalHarmonics):
        return  # (<x, y>)^2 is not zonal for a general x
    degree = np.asarray(basis.degree)
    assert np.abs(found[(degree == 1) | (degree > 2)]).max() < 1e-12
    d = basis.d
    here = np.asarray(basis.moments(jnp.asarray(x[None]), jnp.ones(1)))
    assert np.allclose(found[degree == 2], 2 / (d * (d + 2)) * here[degree == 2], atol=1e-12)


def test_a_zonal_function_in_three_dimensions_is_one_on_the_sphere():
    zonal, sphere = ZonalHarmonics(7, 3), SphereHarmonics(7)
    f = function(zonal)
    whole = jnp.zeros(sphere.shape).at[0, 0].set(f)
    assert np.allclose(sphere.values(whole), zonal.at(f, sphere.nodes), atol=1e-12)


def test_the_sphere_is_orthonormal_to_rounding():
    basis = SphereHarmonics(64)
    table, weights = np.asarray(basis.table), np.asarray(basis.weights)
    for m in (0, 1, 20):
        gram = (table[m, m:] * weights) @ table[m, m:].T
        assert np.abs(gram - (2 if m else 1) * np.eye(len(gram))).max() < 1e-14


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{type(b).__name__}{b.d}")
def test_inside_jit_harmonics_are_the_same_and_have_derivatives(basis):
    f, x = function(basis), RNG.standard_normal((20, basis.d))
    x[0, :-1] = 0  # a pole
    x, w = jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True)), jnp.asarray(RNG.uniform(size=20))
    np.testing.assert_allclose(jax.jit(lambda f, x: basis.at(f, x))(f, x), basis.at(f, x), atol=1e-11)
    np.testing.assert_allclose(jax.jit(lambda x, w: basis.moments(x, w))(x, w), basis.moments(x, w), atol=1e-11)
    v, h = RNG.standard_normal(x.shape), 1e-5
    v -= (x * v).sum(1, keepdims=True) * x
    along = lambda s: (x + s * v) / np.linalg.norm(x + s * v, axis=1, keepdims=True)  # noqa: E731
    exact = (basis.at(f, along(h)) - basis.at(f, along(-h))) / (2 * h)
    slope = jax.jvp(lambda x: basis.at(f, x), (x,), (jnp.asarray(v),))[1]
    np.testing.assert_allclose(slope, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
