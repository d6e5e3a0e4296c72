"""What the claims on densities are measured with."""

import numpy as np
import pytest

import tokenfield as tkf


def test_poisson_kernel_and_its_quantiles():
    from tokenfield.atlas.claims.kuramoto_density import exact, poisson_kernel, quantiles

    a = np.linspace(0, 6, 7)
    density = tkf.CircleDensity(poisson_kernel(0.4, 60)).density(np.stack([np.cos(a), np.sin(a)], axis=1))
    assert density == pytest.approx((1 - 0.16) / (1 - 0.8 * np.cos(a) + 0.16), abs=1e-12)
    moments = [np.exp(1j * k * quantiles(0.4, 64)).mean() for k in range(1, 5)]
    assert moments == pytest.approx([0.4**k for k in range(1, 5)], abs=1e-12)
    t, h = 1.3, 1e-5
    r, slope = exact(np.array(t)), (exact(np.array(t + h)) - exact(np.array(t - h))) / (2 * h)
    assert slope == pytest.approx(r * (1 - r**2) / 2, rel=1e-8)


def test_nodes_near_the_antipode_are_a_quadrature():
    from tokenfield.atlas.claims.small_beta_contraction import R0, equal_tokens, nodes_of_density

    nodes = nodes_of_density()
    z, w = np.asarray(nodes.x) @ [1, 1j], np.asarray(nodes.weights)
    assert w.sum() == pytest.approx(1, abs=1e-14)
    assert [w @ z**k for k in range(1, 6)] == pytest.approx([R0**k for k in range(1, 6)], abs=1e-10)
    assert np.abs(z + 1).min() < 1e-9
    assert (np.asarray(equal_tokens().x) @ [1, 1j]).mean() == pytest.approx(R0, abs=1e-12)


def test_bumps_are_even_and_stand_for_their_density():
    from tokenfield.atlas.claims.several_clusters import MASS, bumps, crossing, density, meeting

    x = np.asarray(bumps(1000).x) @ [1, 1j]
    assert abs(x.mean().imag) < 1e-15
    p = tkf.CircleDensity.from_function(density, 64)
    assert tkf.order_parameter(p) == pytest.approx(x.mean().real, abs=1e-5)
    assert (x.real > 0).sum() == round(1000 * MASS)
    turned = np.asarray(bumps(20, width=0.0, tilt=0.3).x)
    assert turned[0] @ turned[-1] == pytest.approx(np.cos(np.pi - 0.3), abs=1e-14)
    times = np.linspace(0, 5, 41)
    assert crossing(times, np.exp(-times)) == pytest.approx(np.log(10), abs=1e-8)
    small = 1e-4  # near the antipode the angle opens at the rate of the saddle
    rate = MASS / ((1 - MASS) * np.exp(4) + MASS) + (1 - MASS) / (MASS * np.exp(4) + 1 - MASS)
    assert meeting(np.pi - small, 2.0) - meeting(np.pi - 2 * small, 2.0) == pytest.approx(np.log(2) / rate, rel=1e-6)


def test_slope_is_the_derivative_along_the_meridian():
    from tokenfield.atlas.claims.free_energy import slope

    circle = tkf.CircleDensity.from_function(lambda a: 1 + 0.5 * np.cos(3 * a) - 0.25 * np.sin(2 * a), 8)
    x, y = np.asarray(circle.harmonics.nodes).T
    a = np.arctan2(y, x)
    found = slope(circle, np.asarray(circle.coefficients)[None])[0]
    assert found == pytest.approx(-1.5 * np.sin(3 * a) - 0.5 * np.cos(2 * a), abs=1e-12)
    zonal = tkf.ZonalDensity.from_function(lambda t: t**2, 6, 5)
    t = np.asarray(zonal.harmonics.t)
    found = slope(zonal, np.asarray(zonal.coefficients)[None])[0]
    assert found == pytest.approx(5 * 2 * t * np.sqrt(1 - t**2), abs=1e-12)  # the mean of t^2 is 1/5


def test_limits_at_large_beta_against_derivatives_in_the_angle():
    from tokenfield.atlas.claims.backward_heat import limits, power

    density = tkf.CircleDensity.from_function(lambda a: 1 + 0.3 * np.cos(a), 24)
    basis = density.harmonics
    a = np.arange(basis.count) * 2 * np.pi / basis.count
    p, bent = 1 + 0.3 * np.cos(a), -0.3 * np.cos(a)
    values = {name: np.asarray(basis.values(c)) for name, c in limits(density).items()}
    assert values["SA"] == pytest.approx(-bent, abs=1e-12)
    assert values["USA"] == pytest.approx(
        0.3 * np.cos(a) + 0.09 * np.cos(2 * a), abs=1e-12
    )  # p^2 = … + 0.6 cos + 0.045 cos 2a
    h = 0.3 * np.sin(a) / p**2  # (p''/p)', p''/p = 1/p - 1
    flux = p * h  # -½ (p (p''/p)')' = -½ (0.3 sin/p)'
    assert flux == pytest.approx(0.3 * np.sin(a) / p)
    assert values["SA, next"] == pytest.approx(-0.5 * (0.3 * np.cos(a) * p + 0.09 * np.sin(a) ** 2) / p**2, abs=1e-10)
    assert power(np.array([2.0, 4.0, 8.0]), np.array([3.0, 1.5, 0.75])) == pytest.approx(-1)


def test_eigenvalues_tell_what_is_not_one():
    from tokenfield.atlas.claims.mode_growth import eigenvalues

    directions = np.eye(3)
    rates, off = eigenvalues(np.diag([1.0, -2.0, 3.0]), directions)
    assert rates.tolist() == [1.0, -2.0, 3.0]
    assert off == 0
    assert eigenvalues(np.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]]), directions)[1] == 0.5
