"""Functions of theory against mpmath."""

import itertools

import mpmath as mp
import numpy as np
import pytest

import tokenfield as tkf

from .draws import generator, log_uniform, share, signed, structure
from .references import theory

ATTENTIONS = ("softmax", "unnormalized")


@share(14)
def test_modes_of_the_uniform_law(seed):
    rng = generator("modes", seed)
    beta, d = log_uniform(rng, 1e-3, 1e4), int(rng.integers(2, 12))
    attention = ATTENTIONS[seed % 2]
    for k in {0, 1, 2, int(rng.integers(0, 60))}:
        assert tkf.theory.log_multiplier(k, beta, d) == pytest.approx(
            float(mp.log(theory.multiplier(k, beta, d))), rel=1e-11, abs=1e-12
        )
    modes = [1, 2, 3, int(rng.integers(4, 40))]
    unit = beta if attention == "unnormalized" else 0.0
    rates = tkf.theory.growth_rates(beta, d, attention, modes=modes, log_unit=unit)
    expected = [float(theory.growth_rate(k, beta, d, attention) / mp.exp(unit)) for k in modes]
    np.testing.assert_allclose(rates, expected, rtol=1e-10, atol=1e-290)
    kappa = tkf.theory.critical_kappa(beta, d, attention, log_unit=unit)
    assert kappa == pytest.approx(float(theory.critical_kappa(beta, d, attention) * mp.exp(unit)), rel=1e-11)
    if beta < 300:
        best = tkf.theory.first_clusters(beta, d)
        around = {k: theory.growth_rate(k, beta, d, "softmax") for k in range(1, 2 * best + 12)}
        assert around[best] == max(around.values()), (beta, d)
    star = float(theory.beta_star(d))
    assert tkf.theory.beta_star(d) == pytest.approx(star, rel=1e-11)
    assert tkf.theory.transition(beta, d) == ("continuous" if beta <= star else "first order")
    if beta < 100:
        assert tkf.theory.kde_modes_circle(beta) == pytest.approx(float(theory.kde_modes_circle(beta)), rel=1e-10)


@share(11)
def test_pairs_of_clusters(seed):
    rng = generator("pairs", seed)
    beta, attention = log_uniform(rng, 1e-2, 3000.0), ATTENTIONS[seed % 2]
    rho0 = float(rng.uniform(-0.95, 0.95))
    rho1 = float(rng.uniform(rho0, 1.0)) if rng.uniform() < 0.5 else 1 - (1 - rho0) * 10 ** -rng.uniform(1, 6)
    masses = (
        tuple(rng.dirichlet([1.0, 1.0, 1.0])[:2]) if attention == "unnormalized" else tuple(rng.uniform(0.05, 1.0, 2))
    )
    expected = theory.log_pair_merge_time(rho0, rho1, beta, masses, attention)
    found = tkf.theory.pair_merge_time(rho0, rho1, beta, masses, attention, log=True)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-9), seed
    if abs(expected) < 600:
        plain = tkf.theory.pair_merge_time(rho0, rho1, beta, masses, attention)
        assert plain == pytest.approx(np.exp(expected), rel=1e-9 * (1 + abs(expected))), seed
    ratio = masses[0] / masses[1] + masses[1] / masses[0]
    late = beta * (1 - rho0) - np.log(ratio * beta * (1 - rho0**2))
    assert tkf.theory.pair_merge_time_asymptotic(rho0, beta, masses, log=True) == pytest.approx(
        late, rel=1e-12, abs=1e-12
    )
    s = float(rng.uniform(0.0, 2.0))
    assert tkf.theory.pair_cosine(s, rho0, masses) == pytest.approx(np.tanh(ratio * s + np.arctanh(rho0)), rel=1e-12)


@share(16)
def test_contraction_of_layers(seed):
    rng = generator("contraction", seed)
    n = round(log_uniform(rng, 2, 1e6))
    beta = signed(rng, 1e-3, 60.0)
    rho = float(rng.uniform(-0.9 / (n - 1), 0.99)) if rng.uniform() < 0.7 else 1 - 10 ** -rng.uniform(2, 9)
    for step, found in (
        (None, tkf.theory.layer_contraction(rho, n, beta)),
        (0.7, tkf.theory.residual_layer_contraction(rho, n, beta, step=0.7)),
    ):
        expected = theory.contraction(rho, n, beta, step)
        assert float(found) == pytest.approx(float(expected), rel=1e-9, abs=1e-12), seed
    curve = tkf.theory.iterated_contraction(max(rho, 0.0), n, abs(beta), 3, residual=0.7 if seed % 2 else None)
    for old, new in itertools.pairwise(curve):
        expected = theory.contraction(old, n, abs(beta), 0.7 if seed % 2 else None)
        assert new == pytest.approx(float(expected), rel=1e-9, abs=1e-12), seed
    i, j = sorted(rng.integers(1, 60, 2))
    rho = float(rng.uniform(0.0, 0.99))
    b = signed(rng, 0.1, 20.0), signed(rng, 0.1, 20.0)
    if i < j:
        expected = theory.causal_contraction(rho, int(i), int(j), *b)
        assert float(tkf.theory.causal_contraction(rho, i, j, *b)) == pytest.approx(float(expected), rel=1e-10), seed
    target = float(rng.uniform(rho, 1.0))
    if target - rho > 1e-3 and n > 2:
        choice = tkf.theory.choose_gamma(rho, n, target=target)
        reached = float(theory.contraction(rho, n, choice.beta))
        assert reached <= target * (1 + 1e-9)
        if choice.gamma > 0:
            assert reached == pytest.approx(target, rel=1e-8), seed


@share(4)
def test_stationary_laws(seed):
    """Each law solves `mu ∝ exp(kappa W*mu)` or `mu ∝ Z^{kappa/beta}`."""
    _, s = structure("stationary", seed, 6)
    rng = generator("stationary", seed)
    d, attention = int(s.choice([2, 3, 4])), ATTENTIONS[seed % 2]
    beta = float(rng.uniform(0.3, 5.0))
    kappa = float(theory.critical_kappa(beta, d, attention)) * float(rng.uniform(0.9, 1.8))
    for state in tkf.theory.stationary_states(beta, kappa, d, attention, l_max=2):
        c = np.asarray(state.coefficients)
        moments, energy = theory.legendre(c, beta, kappa, d, attention)
        np.testing.assert_allclose(moments, c, rtol=0, atol=1e-8, err_msg=f"{seed}: {state.kind}")
        assert state.m_1 == pytest.approx(abs(c[1]) if len(c) > 1 else 0.0, abs=1e-9)
        if attention == "unnormalized":
            assert state.free_energy == pytest.approx(energy, abs=1e-8 * (1 + np.exp(beta) / beta))
