"""Stationary laws of noisy tokens: closed forms, and solutions found on grids without any of the package's series."""

import math

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.optimize import brentq, fsolve, minimize_scalar
from scipy.special import i0, i1, iv, roots_chebyt, roots_jacobi

from tokenfield.theory import continuation
from tokenfield.theory.branches import branch, first_order_point, fold
from tokenfield.theory.continuation import trace
from tokenfield.theory.noise import _landau, beta_star, critical_kappa
from tokenfield.theory.self_consistency import SelfConsistency
from tokenfield.theory.stationary import stationary_states

USA, SA = "unnormalized", "softmax"


def only(states, kind):
    return [state for state in states if state.kind == kind]


class Brute:
    """`e^{beta(<x,y> - 1)}` between latitudes, averaged over the sphere around the axis by quadrature."""

    def __init__(self, beta, d, nodes=96, inner=80):
        self.beta, self.d = beta, d
        if d == 2:
            self.t, weights = roots_chebyt(nodes)
            u, around = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
        else:
            self.t, weights = roots_jacobi(nodes, (d - 3) / 2, (d - 3) / 2)
            u, around = roots_jacobi(inner, (d - 4) / 2, (d - 4) / 2)
        self.weights, around = weights / weights.sum(), around / around.sum()
        r = np.sqrt(1 - self.t**2)
        self.kernel = sum(
            a * np.exp(beta * (np.outer(self.t, self.t) + np.outer(r, r) * v - 1))
            for v, a in zip(u, around, strict=True)
        )

    def iterate(self, kappa, attention, steps=4000, sharpness=8.0):
        """`mu ← exp(kappa W*mu)` or `Z^{kappa/beta}`, from a concentrated start; density with respect to uniform."""
        p = np.exp(sharpness * self.t)
        p /= self.weights @ p
        for _ in range(steps):
            Z, before = self.kernel @ (self.weights * p), p
            log = kappa / self.beta * (np.exp(self.beta) * Z if attention == USA else np.log(Z))
            p = np.exp(log - log.max())
            p /= self.weights @ p
            if np.abs(p - before).max() < 1e-14 * p.max():
                break
        return p

    def order(self, p):
        return self.weights @ (p * self.t)


def test_noisy_kuramoto():
    r = brentq(lambda r: r - i1(3 * r) / i0(3 * r), 0.5, 0.9, xtol=1e-15)
    for attention in (USA, SA):
        uniform, ordered = stationary_states(0.0, 3.0, 2, attention)
        assert ordered.m_1 == pytest.approx(r, abs=1e-12)
        assert ordered.m_1 == pytest.approx(0.72415872, abs=5e-9)
        assert (uniform.stable, ordered.stable) == (False, True)
        assert uniform.growth == pytest.approx(0.5 - 1 / 3, rel=1e-12)
        assert ordered.free_energy == pytest.approx(r * r / 2 - math.log(i0(3 * r)) / 3, abs=1e-13)
        assert ordered.density(0.4) == pytest.approx(math.exp(1.2 * r) / i0(3 * r), rel=1e-11)
        assert [state.kind for state in stationary_states(0.0, 1.9999, 2, attention)] == ["uniform"]
        assert len(stationary_states(0.0, 2.0001, 2, attention)) == 2


def test_langevin_function_in_three_dimensions():
    r = brentq(lambda r: r - 1 / math.tanh(5 * r) + 1 / (5 * r), 0.3, 0.9, xtol=1e-15)
    assert stationary_states(0.0, 5.0, 3)[1].m_1 == pytest.approx(r, abs=1e-12)


def test_values_of_the_circle():
    assert stationary_states(1.0, 2.5, 2)[1].m_1 == pytest.approx(0.78158, abs=5e-6)
    assert first_order_point(4.0, 2) == pytest.approx(0.391475, abs=5e-7)
    assert fold(4.0, 2) == pytest.approx(0.38706900, abs=5e-9)


def test_fold_is_the_least_kappa_of_the_curve_on_a_fourier_grid():
    """d = 2, beta = 4: kappa as a function of m_1, from Fourier moments on a grid of angles, minimized."""
    beta, theta, k = 4.0, np.arange(256) * np.pi / 128, np.arange(1, 40)
    cosines, multipliers = np.cos(np.outer(k, theta)), iv(k, beta)
    guess = stationary_states(beta, 0.39, 2)[-1]
    start = np.zeros(39)
    start[: min(39, len(guess.coefficients) - 1)] = guess.coefficients[1:40]

    def moments(kappa, m):
        p = np.exp(2 * kappa / beta * (multipliers * m) @ cosines)
        return cosines @ (p / p.sum())

    def kappa_at(m_1):
        y0 = np.r_[0.388, start[1:]]
        y, _, good, _ = fsolve(
            lambda y: moments(y[0], np.r_[m_1, y[1:]]) - np.r_[m_1, y[1:]], y0, xtol=1e-13, full_output=True
        )
        assert good == 1 or np.abs(moments(y[0], np.r_[m_1, y[1:]]) - np.r_[m_1, y[1:]]).max() < 1e-13
        return y[0]

    least = minimize_scalar(kappa_at, bounds=(0.45, 0.7), method="bounded", options={"xatol": 1e-7})
    assert 0.46 < least.x < 0.69
    assert fold(beta, 2) == pytest.approx(least.fun, abs=1e-11)


def test_threshold_of_the_2_sphere_is_e():
    assert [state.kind for state in stationary_states(1.0, math.e - 1e-4, 3)] == ["uniform"]
    uniform, ordered = stationary_states(1.0, math.e + 1e-4, 3)
    assert (uniform.stable, ordered.stable) == (False, True)
    assert ordered.free_energy < 0


@pytest.mark.parametrize(
    ("beta", "ratio", "d", "attention"),
    [
        (1.0, 1.3, 2, SA),
        (5.0, 1.5, 2, SA),
        (2.0, 1.4, 3, SA),
        (6.0, 1.3, 4, SA),
        (3.0, 1.5, 8, SA),
        (2.0, 1.3, 30, SA),
        (4.0, 1.2, 2, USA),
        (2.0, 1.3, 3, USA),
        (5.0, 0.9, 4, USA),
        (4.0, 0.7, 8, USA),
    ],
)
def test_ordered_law_against_fixed_point_iteration(beta, ratio, d, attention):
    brute, kappa = Brute(beta, d), ratio * critical_kappa(beta, d, attention)
    p = brute.iterate(kappa, attention)
    (state,) = [s for s in stationary_states(beta, kappa, d, attention, l_max=1) if s.stable and s.kind == "one peak"]
    assert brute.order(p) > 0.2
    assert state.m_1 == pytest.approx(brute.order(p), rel=1e-10)
    assert state.coefficients[2] == pytest.approx(brute.weights @ (p * (d * brute.t**2 - 1) / (d - 1)), rel=1e-10)
    assert np.abs(state.density(brute.t) - p).max() < 1e-9 * p.max()
    if attention == USA:
        energy = (np.exp(beta) / beta) * ((brute.weights * p) @ brute.kernel @ (brute.weights * p))
        flat = (np.exp(beta) / beta) * (brute.weights @ brute.kernel @ brute.weights)
        entropy = brute.weights @ (p * np.log(p)) / kappa
        assert state.free_energy == pytest.approx(entropy - (energy - flat) / 2, rel=1e-9, abs=1e-12)


def test_the_softmax_law_is_a_critical_point_of_its_functional():
    beta, d = 3.0, 3
    brute, kappa = Brute(beta, d), 1.4 * critical_kappa(beta, d, SA)
    r = 1 + beta / kappa

    def functional(p):
        q = brute.weights * p
        return math.log(brute.weights @ p**r) / (beta * r) - math.log(q @ brute.kernel @ q) / (2 * beta)

    one = stationary_states(beta, kappa, d, SA, l_max=1)[1]
    p = brute.iterate(kappa, SA)
    assert one.free_energy == pytest.approx(functional(p) - functional(np.ones_like(p)), abs=1e-13)
    for change in (brute.t, brute.t**3):
        h = p * (change - brute.weights @ (p * change))
        slope = (functional(p + 1e-4 * h) - functional(p - 1e-4 * h)) / 2e-4
        assert abs(slope) < 1e-9
    off = 1 + 0.5 * brute.t
    assert abs(functional(off + 1e-4 * brute.t) - functional(off - 1e-4 * brute.t)) / 2e-4 > 1e-4


@pytest.mark.parametrize(("beta", "d"), [(4.0, 2), (4.0, 3), (6.0, 4), (4.0, 8)])
def test_stability_changes_at_the_fold(beta, d):
    kappa_c, turn, jump = critical_kappa(beta, d), fold(beta, d), first_order_point(beta, d)
    assert turn < jump < kappa_c
    assert len(stationary_states(beta, turn * (1 - 1e-6), d)) == 1
    uniform, low, high = stationary_states(beta, turn * (1 + 1e-4), d)
    assert low.m_1 < high.m_1
    assert (uniform.stable, low.stable, high.stable) == (True, False, True)
    assert min(low.free_energy, high.free_energy) > 0
    assert high.free_energy < low.free_energy
    before, after = (stationary_states(beta, jump * f, d)[2].free_energy for f in (1 - 1e-6, 1 + 1e-6))
    assert before > 0 > after
    (above,) = only(stationary_states(beta, 1.01 * kappa_c, d), "one peak")
    assert above.stable


@pytest.mark.parametrize(("beta", "d", "attention"), [(2.0, 2, USA), (1.0, 3, USA), (4.0, 2, SA), (4.0, 8, SA)])
def test_continuous_transitions_have_no_fold(beta, d, attention):
    kappa_c = critical_kappa(beta, d, attention)
    assert fold(beta, d, attention) == first_order_point(beta, d, attention) == kappa_c
    curve = branch(beta, d, attention)
    assert curve.complete
    assert (np.diff(curve.kappa) > 0).all()
    assert (np.diff(curve.m_1) > 0).all()
    assert (np.diff(curve.free_energy) < 0).all()
    assert (curve.stable[1:] == 1).all()
    assert curve.kappa[[0, -1]] == pytest.approx([kappa_c, 2 * kappa_c], rel=1e-12)


@pytest.mark.parametrize(
    ("beta", "d", "attention"),
    [(1.0, 2, USA), (4.0, 2, USA), (1.0, 4, USA), (3.0, 8, USA), (4.0, 2, SA), (20.0, 3, SA), (2.0, 8, SA)],
)
def test_amplitude_near_the_threshold(beta, d, attention):
    """`kappa/kappa_c - 1 = c a^2`, a = d m_1, with the Landau coefficient; the rest is O(a^4)."""
    kappa_c, c = critical_kappa(beta, d, attention), _landau(beta, d, attention)
    ratios = []
    for excess in (2e-4, 1e-4):
        kappa = kappa_c * (1 + math.copysign(excess, c))
        state = only(stationary_states(beta, kappa, d, attention, l_max=1), "one peak")[0]
        ratios.append((d * state.m_1) ** 2 * abs(c) / excess)
    assert ratios[1] == pytest.approx(1, abs=0.02)
    assert 2 * ratios[1] - ratios[0] == pytest.approx(1, abs=3e-4)


@pytest.mark.parametrize("excess", [1e-6, 1e-7, 1e-8, 1e-9])
def test_laws_very_near_the_threshold_and_the_fold_are_found(excess):
    c = _landau(1.0, 3, USA)
    (small,) = only(stationary_states(1.0, (1 + excess) * critical_kappa(1.0, 3), 3), "one peak")
    assert 3 * small.m_1 == pytest.approx(math.sqrt(excess / c), rel=2e-3)
    low, high = only(stationary_states(4.0, (1 - excess) * critical_kappa(4.0, 2), 2), "one peak")
    assert 2 * low.m_1 == pytest.approx(math.sqrt(-excess / _landau(4.0, 2, USA)), rel=2e-3)
    assert high.m_1 > 0.78
    low, high = only(stationary_states(4.0, (1 + excess) * fold(4.0, 2), 2), "one peak")
    lower, higher = only(stationary_states(4.0, (1 + 1e-5) * fold(4.0, 2), 2), "one peak")  # a parabola
    assert high.m_1 - low.m_1 == pytest.approx((higher.m_1 - lower.m_1) * math.sqrt(excess / 1e-5), rel=1e-3)


def test_the_kind_of_transition_changes_at_beta_star():
    star = beta_star(2)
    assert fold(star - 1e-3, 2) == critical_kappa(star - 1e-3, 2)
    gaps = [1 - fold(star + e, 2) / critical_kappa(star + e, 2) for e in (0.02, 0.01)]
    assert gaps[1] > 0
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.05)  # the fold leaves kappa_c quadratically


def test_modes_bifurcate_where_they_should():
    beta, d = 4.0, 2
    onset = beta / iv(2, beta)
    curve = branch(beta, d, l=2)
    assert curve.kappa[0] == pytest.approx(onset, rel=1e-13)
    assert (curve.m_1 == 0).all()
    for attention, kappa_2 in ((USA, onset), (SA, beta * iv(0, beta) / iv(2, beta))):
        direction = np.sign(branch(beta, d, attention, l=2).kappa[3] - kappa_2)
        here, there = (
            len(only(stationary_states(beta, kappa_2 * (1 + f), d, attention), "2 peaks")) for f in (-1e-4, 1e-4)
        )
        assert (there - here) * direction == 1


def test_even_modes_leave_both_ways_on_the_2_sphere():
    kinds = [state.kind for state in stationary_states(4.0, 2 * critical_kappa(4.0, 3), 3)]
    assert kinds == ["uniform", "one peak", "l = 2, poles high", "l = 2, poles low"]
    up, down = branch(4.0, 3, l=2), branch(4.0, 3, l=2, side=-1)
    assert up.kappa[0] == down.kappa[0]
    assert (up.kappa[2] - up.kappa[0]) * (down.kappa[2] - down.kappa[0]) < 0  # transcritical


@pytest.mark.parametrize(("beta", "d", "attention"), [(30.0, 2, USA), (100.0, 2, USA), (100.0, 3, USA), (100.0, 8, SA)])
def test_large_beta(beta, d, attention):
    unit = beta if attention == USA else 0.0
    kappa_c, turn = critical_kappa(beta, d, attention, unit), fold(beta, d, attention, unit)
    factor = 1.2 if attention == SA else 1.05
    states = stationary_states(beta, factor * turn, d, attention, log_unit=unit, l_max=1)
    assert all(np.isfinite([s.m_1, s.free_energy]).all() and np.isfinite(s.coefficients).all() for s in states)
    top = states[-1]
    assert turn <= first_order_point(beta, d, attention, unit) <= kappa_c
    assert 0.5 < top.m_1 < 1
    theta = np.linspace(0, np.pi, 4001)
    weight = np.sin(theta) ** (d - 2)
    total = simpson(weight * top.density(np.cos(theta)), dx=1) / simpson(weight, dx=1)
    assert total == pytest.approx(1, abs=1e-8)


def test_narrow_law_of_large_beta():
    """`<x, e>` close to 1: the law is Gaussian of variance 1/(kappa e^beta) on the tangent space, to leading order."""
    problem = SelfConsistency(30.0, 2, USA)
    sigma = math.log(8000.0 / critical_kappa(30.0, 2, USA, 30.0))
    x = trace(problem, 1, 1, sigma).points[-1]
    kappa = critical_kappa(30.0, 2, USA, 30.0) * math.exp(x.sigma)
    assert 2 * (1 - problem.order(x.x)) * kappa == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stationary_states(1.0, 0.0, 2), "kappa must be finite and > 0"),
        (lambda: stationary_states(1.0, -2.0, 2), "kappa must be finite and > 0"),
        (lambda: stationary_states(-1.0, 2.0, 2), "beta must be finite and >= 0"),
        (lambda: stationary_states(1.0, 2.0, 1), "d must be a whole number >= 2"),
        (lambda: stationary_states(1.0, 2.0, 2, "sigmoid"), "attention must be"),
        (lambda: stationary_states(30.0, 1.0, 2), "out of reach"),
        (lambda: fold(-1.0, 2), "beta must be finite and >= 0"),
        (lambda: first_order_point(1.0, 2.5), "d must be a whole number >= 2"),
        (lambda: branch(0.0, 2, l=2), "l must be a mode"),
        (lambda: branch(1.0, 2, kappa_max=0.0), "kappa_max must be finite and > 0"),
        (lambda: branch(1.0, 2, side=0), "side must be 1 or -1"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_branch_that_cannot_be_followed_says_so(monkeypatch):
    monkeypatch.setattr("tokenfield.theory.self_consistency.MOST_NODES", 128)
    with pytest.warns(UserWarning, match="not complete: the law is too concentrated"):
        curve = branch(30.0, 2, kappa_max=1.0)
    assert not curve.complete
    assert "too concentrated" in curve.note
    assert len(curve.kappa) > 10


def test_a_failing_continuation_gives_the_branch_so_far(monkeypatch):
    real, calls = continuation._advance, []
    monkeypatch.setattr(continuation, "_advance", lambda *a: calls.append(1) or (real(*a) if len(calls) < 6 else None))
    with pytest.warns(UserWarning, match="continuation failed at kappa/kappa_c = 1.0"):
        curve = branch(1.0, 2)
    assert not curve.complete
    assert 3 <= len(curve.kappa) <= 7
    assert "continuation failed" in curve.note
    calls.clear()
    with pytest.raises(ValueError, match="kappa = 3 is out of reach for the branch l = 1: continuation failed"):
        stationary_states(1.0, 3.0, 2)


@pytest.mark.slow
def test_a_branch_with_several_folds():
    """d = 16, beta = 30: the branch turns three times; the fold is the lowest, and order wins above it."""
    kappa_c, turn, jump = critical_kappa(30.0, 16), fold(30.0, 16), first_order_point(30.0, 16)
    assert turn < jump < 1e-3 * kappa_c
    assert len(only(stationary_states(30.0, 0.95 * turn, 16, l_max=1), "one peak")) == 0
