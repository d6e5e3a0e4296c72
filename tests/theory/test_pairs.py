"""The merge time of two clusters: against closed forms, mpmath, and the equation of motion itself."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tokenfield.theory.pairs import pair_merge_time, pair_merge_time_asymptotic


def closed_form(rho0, rho1, beta):
    """Softmax, equal masses: `∫ (1 + e^{beta(1-rho)}) / (2(1-rho^2))` in exponential integrals."""
    with mp.workdps(40):
        b, r0, r1 = mp.mpf(beta), mp.mpf(rho0), mp.mpf(rho1)
        # 1/(1-rho^2) = (1/(1-rho) + 1/(1+rho))/2, and e^{b(1-rho)} = e^{2b} e^{-b(1+rho)}
        near = mp.ei(b * (1 - r0)) - mp.ei(b * (1 - r1))
        far = mp.exp(2 * b) * (mp.e1(b * (1 + r0)) - mp.e1(b * (1 + r1)))
        return mp.log((mp.atanh(r1) - mp.atanh(r0) + (near + far) / 2) / 2)


def by_quadrature(rho0, rho1, beta, m_i, m_j, attention):
    with mp.workdps(40):
        beta, m_i, m_j = mp.mpf(beta), mp.mpf(m_i), mp.mpf(m_j)

        def slowness(rho):
            E = mp.exp(beta * (1 - rho))
            F = m_j / (m_i * E + m_j) + m_i / (m_j * E + m_i)
            return 1 / ((1 - rho**2) * (F if attention == "softmax" else (m_i + m_j) * mp.exp(beta * rho)))

        ends = mp.linspace(mp.mpf(rho0), mp.mpf(rho1), 2 + int(beta / 4))
        return float(mp.log(mp.quad(slowness, ends)))


def test_the_published_value():
    assert pair_merge_time(0.3, 0.99, 20.0) == pytest.approx(34449.02, abs=0.005)


@pytest.mark.parametrize("beta", [1e-3, 1.0, 20.0, 1e3, 1e4])
@pytest.mark.parametrize(("rho0", "rho1"), [(0.3, 0.99), (-0.99999, 0.5), (0.0, 0.99999999), (0.5, 0.5 + 1e-9)])
def test_equal_masses_in_closed_form(rho0, rho1, beta):
    wanted = float(closed_form(rho0, rho1, beta))
    assert pair_merge_time(rho0, rho1, beta, log=True) == pytest.approx(wanted, rel=1e-14, abs=1e-11)


@pytest.mark.parametrize("attention", ["softmax", "unnormalized"])
@pytest.mark.parametrize("masses", [(0.5, 0.5), (0.2, 0.3), (1e-6, 0.9)])
@pytest.mark.parametrize("beta", [0.0, 3.0, 60.0])
def test_any_masses_by_quadrature(beta, masses, attention):
    wanted = by_quadrature(-0.4, 0.98, beta, *masses, attention)
    assert pair_merge_time(-0.4, 0.98, beta, masses, attention, log=True) == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("attention", ["softmax", "unnormalized"])
def test_two_heavy_tokens_meet_at_that_time(attention):
    """Two weighted tokens on the circle, moved by the attention of the package."""
    import jax.numpy as jnp

    import tokenfield as tkf

    beta, weights, end = 3.0, jnp.array([0.3, 0.7]), 0.95
    kernel = {"softmax": tkf.Softmax, "unnormalized": tkf.Unnormalized}[attention](beta)

    def right(t, angles):
        x = jnp.stack([jnp.cos(angles), jnp.sin(angles)], 1)
        drift = np.asarray(kernel.of_itself(0.0, tkf.Tokens(x, weights)))
        return drift[:, 1] * np.cos(angles) - drift[:, 0] * np.sin(angles)

    def met(t, angles):
        return math.cos(angles[1] - angles[0]) - end

    met.terminal = True
    start = [0.0, math.acos(-0.2)]
    time = solve_ivp(right, (0, 1e3), start, "LSODA", events=met, rtol=1e-9, atol=1e-11).t_events[0][0]
    assert pair_merge_time(-0.2, end, beta, (0.3, 0.7), attention) == pytest.approx(time, rel=1e-6)


def test_softmax_sees_the_ratio_of_masses_only():
    one = pair_merge_time(0.1, 0.9, 8.0, (0.1, 0.3))
    assert pair_merge_time(0.1, 0.9, 8.0, (2.0, 6.0)) == pytest.approx(one, rel=1e-13)
    assert pair_merge_time(0.1, 0.9, 8.0, (0.3, 0.1)) == pytest.approx(one, rel=1e-13)
    usa = pair_merge_time(0.1, 0.9, 8.0, (0.1, 0.3), "unnormalized")
    assert pair_merge_time(0.1, 0.9, 8.0, (2.0, 6.0), "unnormalized") == pytest.approx(usa / 20, rel=1e-13)


@pytest.mark.parametrize("masses", [(0.5, 0.5), (0.1, 0.3)])
def test_asymptotic_time(masses):
    """The relative error is of order 1/beta, and goes to 0."""
    for beta in (40.0, 400.0, 4000.0):
        exact = pair_merge_time(0.3, 0.9, beta, masses, log=True)
        near = pair_merge_time_asymptotic(0.3, beta, masses, log=True)
        assert 0 < abs(exact - near) < 1 / beta
    assert pair_merge_time_asymptotic(0.3, 20.0) == pytest.approx(math.exp(14) / (40 * 0.91), rel=1e-13)


def test_no_time_for_no_way():
    assert pair_merge_time(0.3, 0.3, 5.0) == 0.0
    assert pair_merge_time(0.3, 0.3, 5.0, log=True) == -math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pair_merge_time(0.3, 0.99, 1e4), "use log=True"),
        (lambda: pair_merge_time(0.3, 0.99, 1e4, attention="unnormalized"), "use log=True"),
        (lambda: pair_merge_time_asymptotic(0.3, 1e4), "use log=True"),
        (lambda: pair_merge_time(-1.0, 0.99, 1.0), "rho0 must lie strictly between -1 and 1, got -1.0"),
        (lambda: pair_merge_time(0.3, 1.0, 1.0), "rho1 must lie strictly"),
        (lambda: pair_merge_time(0.3, math.nan, 1.0), "rho1 must be a finite number, got nan"),
        (lambda: pair_merge_time(0.5, 0.3, 1.0), "rho1 must be at least rho0 = 0.5"),
        (lambda: pair_merge_time(0.3, 0.5, -1.0), "beta must be finite and >= 0"),
        (lambda: pair_merge_time(0.3, 0.5, 1.0, masses=(0.5, 0.0)), "masses must be finite and > 0, got 0.0"),
        (lambda: pair_merge_time(0.3, 0.5, 1.0, masses=(0.5,)), "masses must be two numbers"),
        (lambda: pair_merge_time(0.3, 0.5, 1.0, attention="relu"), "attention must be"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
