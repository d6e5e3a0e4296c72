"""Noisy tokens keep and find the order that theory predicts."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.theory import critical_kappa, fold, stationary_states


@pytest.mark.slow
def test_order_of_tokens_is_that_of_the_stationary_law():
    beta, n = 1.0, 512
    found = tkf.studies.noisy_order_study([beta], d=2, n=n, seed=1).sel(beta=beta)
    high = critical_kappa(beta, 2)
    np.testing.assert_allclose(found["kappa"], high * np.array([0.75, 0.87, 1.25, 2.0]), rtol=1e-12)
    for place in (2, 3):
        order = max(state.m_1 for state in stationary_states(beta, float(found["kappa"][place]), 2, l_max=1))
        # |mean| of n tokens fluctuates by sqrt(variance/n), enhanced near the transition; runs are averaged over 25 times
        assert float(found["order_parameter"].sel(start="ordered")[place]) == pytest.approx(order, abs=0.04)
    assert float(found["order_parameter"].sel(start="uniform")[3]) == pytest.approx(order, abs=0.04)
    assert (found["order_parameter"][0] < 5 / np.sqrt(n)).all()


@pytest.mark.slow
def test_softmax_in_three_dimensions_and_four():
    for d in (3, 4):
        found = tkf.studies.noisy_order_study([1.0], d=d, attention="softmax", n=64)
        kappa = float(found["kappa"][0, 3])
        assert kappa == pytest.approx(2 * critical_kappa(1.0, d, "softmax"), rel=1e-12)
        order = max(state.m_1 for state in stationary_states(1.0, kappa, d, "softmax", l_max=1))
        assert float(found["order_parameter"].sel(start="ordered")[0, 3]) == pytest.approx(order, abs=0.12)


@pytest.mark.slow
def test_first_order_places_and_what_is_left_out():
    found = tkf.studies.noisy_order_study([3.0, 60.0], d=2, n=4)
    assert found["beta"].values.tolist() == [3.0]
    assert found.attrs["left_out"] == "[60.0]"
    assert float(found["kappa"][0, 1]) == pytest.approx(np.sqrt(fold(3.0, 2) * critical_kappa(3.0, 2)), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": []}, "betas must hold at least one number"),
        ({"betas": [-1.0]}, "betas must be finite and >= 0"),
        ({"betas": [1.0], "n": 1}, "n must be a whole number >= 2"),
        ({"betas": [1.0], "attention": "relu"}, "attention must be"),
    ],
)
def test_errors_say_what_is_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        tkf.studies.noisy_order_study(**options)
