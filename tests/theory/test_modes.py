"""Funk–Hecke multipliers against mpmath and against the integral that defines them; growth rates; the first mode."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import eval_gegenbauer, eval_legendre, i0, i1, iv, roots_legendre

from tokenfield.theory.modes import first_clusters, growth_rates, log_multiplier


def exact(k, beta, d):
    """The closed form in 40 digits."""
    with mp.workdps(40):
        half, beta = mp.mpf(d) / 2, mp.mpf(beta)
        bessel = mp.besseli(k + half - 1, beta, maxterms=10**6)
        return float(mp.loggamma(half) + (half - 1) * mp.log(2 / beta) + mp.log(bessel))


@pytest.mark.parametrize("d", [2, 3, 7, 100, 10_000])
@pytest.mark.parametrize("beta", [1e-8, 0.3, 7.0, 60.0, 900.0, 1e4])
def test_multiplier_is_right_at_every_scale(beta, d):
    for k in (0, 1, 2, 9, 300, 3000):
        assert log_multiplier(k, beta, d) == pytest.approx(exact(k, beta, d), rel=1e-14, abs=2e-11)


@pytest.mark.parametrize("d", [2, 3, 5, 10])
@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_multiplier_is_the_funk_hecke_integral(k, d):
    """`w_k = ∫ e^{beta t} P_k(t) (1-t^2)^{(d-3)/2} dt / ∫ (1-t^2)^{(d-3)/2} dt`, P_k(1) = 1; t = cos theta."""
    x, weights = roots_legendre(80)
    theta = np.pi * (x + 1) / 2
    density = np.sin(theta) ** (d - 2) * weights
    harmonic = np.cos(k * theta)
    if d > 2:
        harmonic = eval_gegenbauer(k, d / 2 - 1, np.cos(theta)) / eval_gegenbauer(k, d / 2 - 1, 1.0)
    for beta in (0.2, 3.0):
        integral = (np.exp(beta * np.cos(theta)) * harmonic * density).sum() / density.sum()
        assert math.exp(log_multiplier(k, beta, d)) == pytest.approx(integral, rel=1e-10)
    if d == 3:
        np.testing.assert_allclose(harmonic, eval_legendre(k, np.cos(theta)), atol=1e-13)


def test_multiplier_nearly_one_keeps_its_digits():
    """`log w_0 = beta^2/(2d) - …`: no cancellation for small beta or large d."""
    assert log_multiplier(0, 1e-6, 3) == pytest.approx(1e-12 / 6, rel=1e-12)
    assert log_multiplier(0, 1e-3, 10_000) == pytest.approx(1e-6 / 20_000, rel=1e-9)


def test_multipliers_at_zero():
    assert log_multiplier(0, 0.0, 4) == 0.0
    assert log_multiplier(1, 0.0, 4) == -math.inf


def test_growth_rates_on_the_circle():
    k, beta = np.arange(9), 5.0
    usa = k**2 * iv(k, beta) / beta
    np.testing.assert_allclose(growth_rates(beta, 2, "unnormalized", modes=8), usa, rtol=1e-13)
    np.testing.assert_allclose(growth_rates(beta, 2, modes=8), usa / i0(beta), rtol=1e-13)
    np.testing.assert_allclose(growth_rates(beta, 2, "Softmax", modes=[3, 1]), usa[[3, 1]] / i0(beta), rtol=1e-13)
    np.testing.assert_allclose(growth_rates(beta, 2, "unnormalized", 8, log_unit=2.0), usa / math.e**2, rtol=1e-13)
    assert growth_rates(1.0, 2, "unnormalized", [1])[0] == pytest.approx(i1(1.0), rel=1e-14)


def test_growth_rates_on_the_sphere_in_closed_form():
    """d = 3: w_0 = sinh b/b, w_1 = cosh b/b - sinh b/b^2; the rate of mode 1 is 2 w_1/b."""
    b = 2.5
    w0, w1 = math.sinh(b) / b, math.cosh(b) / b - math.sinh(b) / b**2
    np.testing.assert_allclose(growth_rates(b, 3, "unnormalized", modes=1), [0, 2 * w1 / b], rtol=1e-13)
    np.testing.assert_allclose(growth_rates(b, 3, modes=1), [0, 2 * w1 / (b * w0)], rtol=1e-13)


@pytest.mark.parametrize("attention", ["softmax", "unnormalized"])
@pytest.mark.parametrize("d", [2, 3, 11])
def test_growth_rates_as_beta_goes_to_zero(attention, d):
    np.testing.assert_allclose(growth_rates(0.0, d, attention, modes=3), [0, (d - 1) / d, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(growth_rates(1e-9, d, attention, modes=3), [0, (d - 1) / d, 0, 0], atol=1e-8)


def test_rates_agree_with_a_simulated_perturbation():
    """Tokens spread evenly on the circle and perturbed by cos(k theta): the token velocity gives the rate."""
    import tokenfield as tkf

    n, k, beta, eps = 600, 4, 7.0, 1e-5
    even = 2 * np.pi * np.arange(n) / n
    angles = even + eps * np.sin(k * even)
    tokens = tkf.circle_tokens(angles)
    for kernel, name in ((tkf.Softmax(beta), "softmax"), (tkf.Unnormalized(beta), "unnormalized")):
        drift = np.asarray(kernel.of_itself(0.0, tokens))
        speed = drift[:, 1] * np.cos(angles) - drift[:, 0] * np.sin(angles)
        measured = 2 * (speed * np.sin(k * even)).mean() / eps
        assert measured == pytest.approx(growth_rates(beta, 2, name, [k])[0], rel=1e-3)


def test_first_clusters():
    assert [first_clusters(beta, 2) for beta in (0.0, 1e-8, 1.0, 5.0, 7.0, 100.0)] == [1, 1, 1, 3, 4, 14]


@pytest.mark.parametrize(("beta", "d"), [(0.5, 2), (30.0, 2), (3.0, 3), (250.0, 3), (400.0, 20), (60.0, 300)])
def test_first_clusters_is_the_largest_rate(beta, d):
    assert first_clusters(beta, d) == growth_rates(beta, d, modes=80).argmax()


@pytest.mark.parametrize("d", [2, 3, 50])
def test_first_clusters_for_large_beta(d):
    k = first_clusters(1e4, d)
    assert (k - 1) * (k + d - 3) < 2e4 < (k + 2) * (k + d)
    assert first_clusters(1e4, 10_000) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_multiplier(-1, 1.0, 2), "k must be a whole number >= 0, got -1"),
        (lambda: growth_rates(-1.0, 2), "beta must be finite and >= 0, got -1.0"),
        (lambda: first_clusters(-0.1, 2), "beta must be finite and >= 0"),
        (lambda: first_clusters(1.0, 1), "d must be a whole number >= 2, got 1"),
        (lambda: growth_rates(1.0, 2, "sotfmax"), "did you mean 'softmax'"),
        (lambda: growth_rates(1e4, 2, "unnormalized"), "log_unit=10000"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_overflowing_rates_in_units():
    rates = growth_rates(1e4, 2, "unnormalized", modes=200, log_unit=1e4)
    assert np.isfinite(rates).all()
    assert rates[0] == 0
    with mp.workdps(30):
        exact_rate = 141**2 * mp.besseli(141, 10_000) / 10_000 * mp.exp(-10_000)
    assert rates[141] == pytest.approx(float(exact_rate), rel=1e-10)
