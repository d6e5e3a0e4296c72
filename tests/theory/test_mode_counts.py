"""Numbers of modes predicted by Kac and Rice, against series, simulations and limits."""

import numpy as np
import pytest
from scipy.special import ive

from tokenfield.observables.kernel_density import kde_modes
from tokenfield.theory.mode_counts import kde_modes_circle, kde_modes_line, kde_modes_line_limit


@pytest.mark.parametrize("beta", [1e-3, 0.5, 3.0, 40.0, 1000.0])
def test_circle_is_the_ratio_of_spectral_moments(beta):
    k = np.arange(1, 600)
    power = ive(k, beta) ** 2
    exact = np.sqrt((k**4.0 * power).sum() / (k**2.0 * power).sum())
    assert kde_modes_circle(beta) == pytest.approx(exact, rel=1e-9)


def test_circle_limits():
    assert kde_modes_circle(0.0) == 1
    assert kde_modes_circle(1e-7) == pytest.approx(1, abs=1e-6)
    assert kde_modes_circle(100.0, limit=True) == pytest.approx(12.24744871)
    assert kde_modes_circle(1e4) ** 2 - 1.5e4 == pytest.approx(-1 / 8, abs=1e-4)


@pytest.mark.parametrize("beta", [1.0, 30.0])
def test_circle_against_simulation(beta):
    rng = np.random.default_rng(0)
    counts = [len(kde_modes(rng.uniform(0, 2 * np.pi, 3000), beta, "circle")) for _ in range(200)]
    assert np.mean(counts) == pytest.approx(kde_modes_circle(beta), abs=4 * np.std(counts) / 200**0.5)


@pytest.mark.parametrize(
    ("n", "beta", "draws"), [(3000, 60.0, 150), (10_000, 1e3, 60), (10_000, 1e4, 20), (3000, 1e5, 20)]
)
def test_line_against_simulation(n, beta, draws):
    rng = np.random.default_rng(1)
    counts = [len(kde_modes(rng.standard_normal(n), beta)) for _ in range(draws)]
    assert np.mean(counts) == pytest.approx(kde_modes_line(n, beta), rel=0.06, abs=4 * np.std(counts) / draws**0.5)


def test_line_with_a_smooth_kernel_has_one_mode():
    assert kde_modes_line(1e12, 4.0) == pytest.approx(1, abs=1e-3)


def test_line_with_a_sharp_kernel_has_a_mode_at_nearly_each_point():
    assert kde_modes_line(100, 1e12) == pytest.approx(100, rel=1e-3)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.6])
def test_line_approaches_its_limit(exponent):
    ratios = [
        kde_modes_line(beta ** (1 / exponent), beta) / np.sqrt(beta * np.log(beta)) / kde_modes_line_limit(exponent)
        for beta in (1e10, 1e20, 1e40)
    ]
    errors = np.abs(np.array(ratios) - 1)
    assert errors[2] < errors[1] < errors[0] < 0.5
    assert errors[2] < 0.12


def test_wrong_input():
    with pytest.raises(ValueError, match="exponent"):
        kde_modes_line_limit(2.0)
    with pytest.raises(ValueError, match="beta"):
        kde_modes_line(100, 0.0)
    with pytest.raises(ValueError, match="n must"):
        kde_modes_line(0, 1.0)
    with pytest.raises(ValueError, match="beta"):
        kde_modes_circle(-1.0)
