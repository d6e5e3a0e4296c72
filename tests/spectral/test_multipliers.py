"""Multipliers of the kernel as functions of beta: Bessel functions of SciPy and mpmath, exact derivatives."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.special import gamma, ive

from tokenfield.spectral import multipliers, scaled_multipliers

MODES = 40
BETAS = (0.0, 1e-9, 0.02, 0.49, 0.51, -1.0, 7.0, -55.0, 300.0, 2e3, -1e4, 1e6)
table = jax.jit(scaled_multipliers, static_argnums=(1, 2))


def exact(k, beta, d):
    """`w_k e^{-|beta|}` in 40 digits."""
    with mpmath.workdps(40):
        if beta == 0:
            return mpmath.mpf(k == 0)
        b, nu = mpmath.mpf(abs(beta)), mpmath.mpf(d) / 2 - 1
        sign = -1 if beta < 0 and k % 2 else 1
        return sign * mpmath.gamma(nu + 1) * (2 / b) ** nu * mpmath.besseli(k + nu, b) * mpmath.exp(-b)


@pytest.mark.parametrize("d", [2, 3, 4, 7, 50])
def test_against_bessel_functions_in_many_digits(d):
    for beta in BETAS:
        found = np.asarray(table(jnp.array(beta), d, MODES))
        for k in (0, 1, 2, 9, MODES):
            right = exact(k, beta, d)
            assert abs(found[k] - right) <= 1e-13 * abs(right) + 1e-290


@pytest.mark.parametrize("d", [2, 3, 6])
def test_many_modes(d):
    """SciPy's own error is a few 1e-13 at large orders."""
    k = np.arange(1025)
    for beta in (3.0, 80.0, 1e4):
        found = np.asarray(table(jnp.array(beta), d, 1024))
        right = gamma(d / 2) * (2 / beta) ** (d / 2 - 1) * ive(k + d / 2 - 1, beta)
        seen = right > 1e-280
        assert np.abs(found[seen] / right[seen] - 1).max() < 1e-12
        assert found[~seen].max(initial=0) < 1e-279
        for last in (seen.sum() - 1, seen.sum() // 2):
            assert abs(found[last] / exact(int(last), beta, d) - 1) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_derivatives_by_the_recurrence(d):
    """`(2k+d-2) w_k' = k w_{k-1} + (k+d-2) w_{k+1}`, forward and reverse; beside it `|beta|'`, 1 at 0."""
    k = np.arange(1, MODES)
    for beta in BETAS:
        sign = -1 if beta < 0 else 1
        forward = np.asarray(jax.jacfwd(scaled_multipliers)(jnp.array(beta), d, MODES))
        reverse = np.asarray(jax.jacrev(scaled_multipliers)(jnp.array(beta), d, MODES))
        w = np.asarray(table(jnp.array(beta), d, MODES))
        right = (k * w[:-2] + (k + d - 2) * w[2:]) / (2 * k + d - 2) - sign * w[1:-1]
        size = np.abs(w[:-2]) + np.abs(w[2:])
        assert (np.abs(forward[1:-1] - right) <= 1e-12 * size + 1e-290).all()
        assert (np.abs(reverse - forward)[1:-1] <= 1e-13 * size + 1e-290).all()
        assert abs(forward[0] - (w[1] - sign * w[0])) <= 1e-12 * w[0]


def test_at_zero_ratios_and_their_derivatives_are_finite():
    whole, ratios = multipliers(jnp.array(0.0), 3, 4)
    assert float(whole) == 1
    np.testing.assert_allclose(ratios, [0, 1 / 3, 0, 0, 0], rtol=1e-15)
    slope = jax.grad(lambda beta: multipliers(beta, 3, 4).ratios[2])(0.0)
    assert slope == pytest.approx(1 / 15, rel=1e-14)  # w_2 = beta^2/15 + …
    batch = jax.vmap(lambda beta: scaled_multipliers(beta, 3, 4))(jnp.array([0.0, 2.0, -3.0]))
    np.testing.assert_allclose(batch[2], table(jnp.array(-3.0), 3, 4), rtol=1e-14)
