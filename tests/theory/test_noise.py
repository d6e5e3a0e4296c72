"""Critical noise, and the kind of transition: closed forms, and stationary measures found numerically."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.special import iv, roots_chebyt, roots_gegenbauer

from tokenfield.theory.modes import log_multiplier
from tokenfield.theory.noise import _landau, beta_star, critical_kappa, transition


class Zonal:
    """Stationary measures symmetric about an axis, by the moments `m_k = ∫ P_k dmu` (normalized Gegenbauer P_k)."""

    def __init__(self, beta, d, modes=48, nodes=160):
        t, weights = roots_chebyt(nodes) if d == 2 else roots_gegenbauer(nodes, d / 2 - 1)
        P = [np.ones(nodes), t]
        for k in range(1, modes):
            P.append(((2 * k + d - 2) * t * P[k] - k * P[k - 1]) / (k + d - 2))
        self.d, self.beta, self.t, self.weights, self.P = d, beta, t, weights / weights.sum(), np.array(P)
        self.dims = 1 / (self.P**2 @ self.weights)
        self.w = np.exp([log_multiplier(k, beta, d) for k in range(modes + 1)])

    def moments(self, log_density):
        mu = np.exp(log_density - log_density.max())
        return self.P @ (self.weights * mu) / (self.weights @ mu)

    def image(self, m, kappa, attention):
        """`mu ∝ exp(kappa W*mu)` or `mu ∝ Z^{kappa/beta}`, where `Z = sum_k dim_k w_k m_k P_k`."""
        Z = (self.dims * self.w * m) @ self.P
        return self.moments(kappa / self.beta * (np.log(Z) if attention == "softmax" else Z))

    def relax(self, m, kappa, attention, steps):
        for _ in range(steps):
            m = self.image(m, kappa, attention)
        return m

    def concentrated(self, sharpness=8.0):
        return self.moments(sharpness * self.t)

    def small(self, kappa, attention, a):
        """The stationary measure near `1 + a t`."""
        guess = np.zeros(len(self.w))
        guess[0], guess[1] = 1, a / self.d
        found, _, good, message = fsolve(
            lambda m: self.image(m, kappa, attention) - m, guess, full_output=True, xtol=1e-12
        )
        assert good == 1, message
        return found


def test_critical_kappa_in_closed_form():
    b = 2.3
    assert critical_kappa(1.0, 2) == pytest.approx(1.76941324, abs=5e-9)
    assert critical_kappa(1.0, 3) == pytest.approx(math.e, rel=1e-14)
    assert critical_kappa(b, 2) == pytest.approx(b / iv(1, b), rel=1e-13)
    assert critical_kappa(b, 3) == pytest.approx(b**3 / (b * math.cosh(b) - math.sinh(b)), rel=1e-13)
    assert critical_kappa(b, 2, "softmax") == pytest.approx(b * iv(0, b) / iv(1, b), rel=1e-13)
    assert critical_kappa(b, 3, "softmax") == pytest.approx(b**2 / (b / math.tanh(b) - 1), rel=1e-13)


@pytest.mark.parametrize("attention", ["softmax", "unnormalized"])
@pytest.mark.parametrize("d", [2, 5, 10_000])
def test_critical_kappa_tends_to_d(attention, d):
    for beta in (0.0, 1e-8):
        assert critical_kappa(beta, d, attention) == pytest.approx(d, rel=1e-12)


def test_critical_kappa_at_large_beta():
    with mp.workdps(30):
        usa = float(10_000 / (mp.besseli(1, 10_000) * mp.exp(-10_000)))
        sa = float(10_000 * mp.besseli(0, 10_000) / mp.besseli(1, 10_000))
    assert critical_kappa(1e4, 2, log_unit=1e4) == pytest.approx(usa, rel=1e-11)
    assert critical_kappa(1e4, 2, "softmax") == pytest.approx(sa, rel=1e-11)
    with pytest.raises(ValueError, match="log_unit=10000"):
        critical_kappa(1e4, 2)


@pytest.mark.parametrize("d", [2, 3, 4, 30, 1000])
def test_beta_star_solves_its_equation(d):
    with mp.workdps(30):
        ratio = mp.besseli(mp.mpf(d) / 2 + 1, beta_star(d)) / mp.besseli(mp.mpf(d) / 2, beta_star(d))
    assert float(ratio) * d == pytest.approx(1, rel=1e-12)


def test_beta_star_values():
    assert beta_star(2) == pytest.approx(2.446918311, abs=5e-10)
    assert beta_star(2, "softmax") == math.inf
    assert transition(2.4469, 2) == transition(0.0, 2) == "continuous"
    assert transition(2.4470, 2) == "first order"


@pytest.mark.parametrize(
    ("attention", "beta", "d"),
    [
        ("softmax", 1.0, 2),
        ("softmax", 4.0, 2),
        ("softmax", 20.0, 2),
        ("softmax", 4.0, 3),
        ("softmax", 1.0, 6),
        ("unnormalized", 1.0, 2),
        ("unnormalized", 2.0, 2),
        ("unnormalized", 1.0, 3),
    ],
)
def test_amplitude_above_a_continuous_transition(attention, beta, d):
    """`a^2 = (kappa/kappa_c - 1)/c (1 + O(kappa - kappa_c))`: to 0, linearly, with the derived coefficient."""
    assert transition(beta, d, attention) == "continuous"
    zonal, kappa_c, c = Zonal(beta, d), critical_kappa(beta, d, attention), _landau(beta, d, attention)
    ratios = []
    for excess in (4e-4, 2e-4, 1e-4):
        a = math.sqrt(excess / c)
        m = zonal.small(kappa_c * (1 + excess), attention, a)
        ratios.append((d * m[1]) ** 2 * c / excess)
    limit = 2 * ratios[2] - ratios[1]
    assert ratios[2] == pytest.approx(1, abs=0.02)
    assert limit == pytest.approx(1, abs=3e-4)


@pytest.mark.parametrize("beta", [1.0, 4.0, 20.0])
def test_softmax_has_no_order_below_its_threshold(beta):
    """Nothing concentrated survives just below kappa_c: no fold, so the transition is continuous in the large too."""
    zonal, kappa_c = Zonal(beta, 2), critical_kappa(beta, 2, "softmax")
    below = zonal.relax(zonal.concentrated(), 0.98 * kappa_c, "softmax", 800)
    above = zonal.relax(zonal.concentrated(), 1.02 * kappa_c, "softmax", 800)
    assert below[1] < 1e-5
    assert above[1] > 0.1


def test_unnormalized_order_survives_below_the_threshold_above_beta_star():
    """d = 2, beta = 4: first order, with a fold at .387070 < kappa_c."""
    zonal, kappa_c = Zonal(4.0, 2), critical_kappa(4.0, 2)
    assert transition(4.0, 2) == "first order"
    assert kappa_c > 0.388
    assert zonal.relax(zonal.concentrated(), 0.3875, "unnormalized", 3000)[1] > 0.3
    assert zonal.relax(zonal.concentrated(), 0.3860, "unnormalized", 3000)[1] < 1e-5
    beta = 2.0  # below beta_*
    calm = Zonal(beta, 2)
    assert calm.relax(calm.concentrated(), 0.98 * critical_kappa(beta, 2), "unnormalized", 800)[1] < 1e-5


def test_unnormalized_bifurcates_backwards_above_beta_star():
    """The small stationary state lies below kappa_c, on the unstable branch, with the derived coefficient."""
    beta, d = 4.0, 2
    c = _landau(beta, d, "unnormalized")
    assert c < 0
    m = Zonal(beta, d).small(critical_kappa(beta, d) * (1 - 1e-4), "unnormalized", math.sqrt(1e-4 / -c))
    assert (d * m[1]) ** 2 * c / -1e-4 == pytest.approx(1, abs=0.02)


def test_softmax_criterion_holds_everywhere():
    for d in (2, 3, 10, 300, 10_000):
        for beta in (1e-6, 0.1, 1.0, 10.0, 300.0, 1e4):
            assert transition(beta, d, "softmax") == "continuous"
            assert _landau(beta, d, "softmax") > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: critical_kappa(-1.0, 2), "beta must be finite and >= 0"),
        (lambda: critical_kappa(1.0, 1), "d must be a whole number >= 2"),
        (lambda: beta_star(2, "sigmoid"), "attention must be"),
        (lambda: transition(-1.0, 2), "beta must be finite and >= 0"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
