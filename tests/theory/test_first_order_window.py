"""Which law is favored at a given noise: the table of predictions against laws found by iteration, with quadrature."""

import math

import numpy as np
import pytest
from scipy.special import iv, roots_chebyt, roots_gegenbauer

import tokenfield as tkf


class Laws:
    """Zonal laws p(t) at Gauss nodes; `mu ∝ exp((kappa/beta) Z)` (unnormalized) or `mu ∝ Z^{kappa/beta}` (softmax)."""

    def __init__(self, beta, d, attention):
        size = 120
        t, w = roots_chebyt(size) if d == 2 else roots_gegenbauer(size, d / 2 - 1)
        P = [np.ones(size), t]
        for k in range(1, 50):
            P.append(((2 * k + d - 2) * t * P[k] - k * P[k - 1]) / (k + d - 2))
        P, self.w, self.t = np.array(P), w / w.sum(), t
        multiplier = math.gamma(d / 2) * (2 / beta) ** (d / 2 - 1) * iv(np.arange(51) + d / 2 - 1, beta)
        self.K = (P.T * (multiplier / (P**2 @ self.w))) @ P
        self.beta, self.softmax = beta, attention == "softmax"
        self.critical = beta / multiplier[1] * (multiplier[0] if self.softmax else 1)

    def ordered(self, kappa):
        """The law that iteration from a concentrated one tends to, and whether it is not the uniform one."""
        p = np.exp(60 * (self.t - 1))
        for _ in range(3000):
            Z = self.K @ (self.w * p) / (self.w @ p)
            log = kappa / self.beta * (np.log(Z) if self.softmax else Z)
            p, before = np.exp(log - log.max()), p / (self.w @ p)
            p = p / (self.w @ p)
            if np.abs(p - before).max() < 1e-9 * p.max():
                break
        return p, bool(self.w @ (p * self.t) > 0.02)

    def free_energy(self, p, kappa):
        """That of unnormalized attention, less that of the uniform law."""
        energy = lambda q: (self.w * q) @ self.K @ (self.w * q) / (2 * self.beta)  # noqa: E731
        return (self.w * p) @ np.log(p) / kappa - energy(p) + energy(np.ones_like(p))


def note(beta, d, kappa, attention):
    (row,) = [
        row for row in tkf.theory.predict(64, d, beta, attention=attention, kappa=kappa) if row.key == "critical_kappa"
    ]
    return row.note


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4, 8])
def test_the_favored_law_around_all_thresholds(d):
    for beta in tkf.theory.beta_star(d) + np.random.default_rng(d).uniform([0.7, 3.0], [2.0, 5.0]):
        beta = float(beta)
        laws = Laws(beta, d, "unnormalized")
        low, equal = tkf.theory.fold(beta, d), tkf.theory.first_order_point(beta, d)
        assert low < equal < laws.critical
        for kappa in (0.5 * low, 0.99 * low, 1.01 * low, 0.99 * equal, 1.01 * equal, 0.99 * laws.critical):
            p, there = laws.ordered(kappa)
            assert there == (kappa > low)
            text = note(beta, d, kappa, "unnormalized")
            assert ("below the fold" in text and "stay spread" in text) == (not there)
            if there:
                assert f"{low:.6g}" in text
                assert f"{equal:.6g}" in text
                better = "the ordered law" if laws.free_energy(p, kappa) < 0 else "the uniform law"
                assert f"{better} is favored" in text
                assert "first-order window" in text
        assert laws.ordered(1.01 * laws.critical)[1]
        assert "above it: tokens become ordered" in note(beta, d, 1.01 * laws.critical, "unnormalized")


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("d", [2, 3, 4, 8])
def test_continuous_transitions_have_no_window(d):
    draws = [(attention, beta) for attention in ("softmax",) for beta in (0.5, 4.0, 15.0)]
    draws.append(("unnormalized", 0.8 * tkf.theory.beta_star(d)))
    for attention, beta in draws:
        laws = Laws(beta, d, attention)
        for factor in (0.9, 1.1):
            text = note(beta, d, factor * laws.critical, attention)
            assert laws.ordered(factor * laws.critical)[1] == (factor > 1)
            assert ("above it: tokens become ordered" in text) == (factor > 1)
            assert ("not above it: tokens stay spread" in text) == (factor < 1)


def test_the_numbers_of_one_case():
    text = note(4.0, 4, 1.1, "unnormalized")
    assert "0.835934" in text
    assert "0.898074" in text
    assert "the ordered law is favored" in text
    assert "stay spread;" not in text


def test_a_window_that_is_not_found_is_said(monkeypatch):
    from tokenfield.theory import branches

    def fail(*_):
        raise ValueError("no turning point")

    monkeypatch.setattr(branches, "window", fail)
    assert "from a fold that was not found: no turning point" in note(4.0, 4, 1.1, "unnormalized")


def test_a_model_that_theory_is_not_about_gets_no_window():
    rows = tkf.theory.predict(64, 4, 4.0, "pre", "unnormalized", kappa=1.1)
    (row,) = [row for row in rows if row.key == "critical_kappa"]
    assert not row.valid
    assert "window" not in row.note
