"""The response of the last token to a perturbation at a position: eigenfunctions, a matrix of many tokens, values of FORMULAS."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

from tokenfield.atlas.linearized import near_uniform, richardson, weights
from tokenfield.theory import (
    fit_influence,
    growth_rates,
    layer_influence,
    lost_time,
    position_response,
    recency_ends,
    token_influence,
)


def test_values_of_the_formulas():
    assert position_response(0.5, 0.9) == pytest.approx(1.2114778, abs=1e-7)
    assert position_response(0.5, 0.9, slope=1.0) == pytest.approx(1.3016270, abs=1e-7)
    assert layer_influence(0.4, 12, 0.3) == pytest.approx(0.360296, abs=1e-6)


@pytest.mark.parametrize("slope", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("power", [0, 1, 2.5])
def test_eigenfunctions(slope, power):
    """`eps(0) = q^m`, q as in the module, grows like `e^{c/(m+1)}`: so `∫ G q^m dtau = e^{c/(m+1)} - 1` at s."""
    s, c = 0.8, 1.7
    q = lambda tau: np.expm1(slope * tau) / np.expm1(slope * s) if slope else tau / s  # noqa: E731
    response = lambda u: position_response(s * np.exp(-u), c, s=s, slope=slope)  # noqa: E731
    # tau = s e^{-u}: the logarithm at tau -> 0 becomes a decay
    found = quad(
        lambda u: response(u) * q(s * np.exp(-u)) ** power * s * np.exp(-u), 1e-14, 60, epsabs=1e-12, limit=400
    )[0]
    assert found == pytest.approx(np.expm1(c / (power + 1)), rel=1e-8)


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_many_tokens(slope):
    """The exponential of the matrix of n causal tokens: the error falls like 1/n."""
    errors = []
    for n in (200, 400):
        s = (np.arange(n) + 0.5) / n
        P = np.tril(np.exp(slope * np.broadcast_to(s, (n, n))))
        P /= P.sum(1, keepdims=True)
        found = n * expm(1.2 * P)[-1, : n - 1]
        inside = slice(n // 10, 9 * n // 10)
        exact = position_response(s[inside], 1.2, slope=slope)
        errors.append(np.abs(found[inside] / exact - 1).max())
    assert errors[1] < 0.01
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.2)


def test_recency_ends_where_the_slope_at_the_last_token_changes_sign():
    slope, rate = 1.3, 0.4
    end = recency_ends(slope, rate)
    for factor, rises in ((0.95, True), (1.05, False)):
        near = position_response([1 - 2e-6, 1 - 1e-6], rate * end * factor, slope=slope)
        assert (near[1] > near[0]) == rises
    assert recency_ends(0.0, rate) == 0


@pytest.mark.parametrize("slope", [0.4, 1.3, 3.0])
@pytest.mark.parametrize("tau", [0.02, 0.3, 0.39])
def test_lost_is_the_least_response(tau, slope):
    """At `lost_time` all positions on a grid respond more, near and far."""
    rate = 0.7
    c = rate * lost_time(tau, slope, rate)
    grid = np.append(np.linspace(1e-3, 1 - 1e-9, 4001), [0.999 * tau, 1.001 * tau])
    assert (
        position_response(grid[np.abs(grid - tau) > 1e-6], c, slope=slope) > position_response(tau, c, slope=slope)
    ).all()


def test_the_minimum_jumps_to_the_end_beyond_log_4():
    below, above = np.log(4) - 0.02, np.log(4) + 0.02
    assert lost_time(0.995, below, 1.0) < recency_ends(below, 1.0)
    with pytest.raises(ValueError, match=r"tau = 0.995 is never lost at slope = 1.40629: the minimum"):
        lost_time(0.995, above, 1.0)


@pytest.mark.parametrize(("slope", "alpha"), [(0.0, 0.4), (2.0, 0.3), (1.0, 1.0)])
def test_powers_of_the_causal_layer(slope, alpha):
    n, L = 12, 5
    w = np.exp(slope * np.arange(n) / n)
    P = np.array([[w[j] / w[: i + 1].sum() if j <= i else 0.0 for j in range(n)] for i in range(n)])
    exact = np.linalg.matrix_power((1 - alpha) * np.eye(n) + alpha * P, L)[-1]
    np.testing.assert_allclose(token_influence(n, L, alpha, slope=slope), exact, rtol=1e-13)


def test_many_tokens_in_layers():
    """n times the influence of token `n tau`, in the limit of many tokens, is the closed form."""
    tau = np.array([0.25, 0.5, 0.75])
    rows = [n * token_influence(n, 12, 0.3)[(n * tau).astype(int) - 1] for n in (64, 128, 256, 512, 1024)]
    np.testing.assert_allclose(richardson(rows), layer_influence(tau, 12, 0.3), rtol=1e-9)
    assert layer_influence(0.3, 4, 1.0) == pytest.approx(np.log(1 / 0.3) ** 3 / 6)


def test_linearized_runs():
    """Derivatives of runs of n positions are the exponential of their matrix; the limit of many positions is the response."""
    n, c, slope, beta, mode = 8, 0.9, 1.0, 1.5, 2
    found = near_uniform(n, beta, mode, 16)(slope, c / growth_rates(beta, 2, modes=[mode])[0])
    np.testing.assert_allclose(found, expm(c * weights(n, slope))[-1], atol=1e-8)
    tau = np.array([0.25, 0.5, 0.75])
    rows = [n * expm(c * weights(n, slope))[-1, (n * tau).astype(int) - 1] for n in (16, 32, 64, 128)]
    np.testing.assert_allclose(richardson(rows), position_response(tau, c, slope=slope), rtol=1e-6)


def test_fit():
    measured = 3.0 * token_influence(40, 6, 0.2, slope=1.5)
    found = fit_influence(measured, 6)
    assert (found.alpha, found.slope) == pytest.approx((0.2, 1.5), rel=1e-6)
    assert found.error < 1e-7
    np.testing.assert_allclose(found.influence, measured / 3, rtol=1e-6)
    assert found.flat == pytest.approx(
        np.sqrt(np.sum((np.log(measured[:-1]) - np.log(measured[:-1]).mean()) ** 2) / 40)
    )
    noise = np.exp(0.3 * np.random.default_rng(0).standard_normal(40))
    one, two = fit_influence(measured * noise, 6, slope=0.0), fit_influence(measured * noise, 6)
    assert one.slope == 0
    assert two.error < one.error
    ratio = np.log(measured * noise / (measured * noise).sum() / token_influence(40, 6, two.alpha, slope=two.slope))
    assert two.error == pytest.approx(np.sqrt((ratio**2).mean()))
    for near in (0.98, 1.02):
        for alpha, slope in ((two.alpha * near, two.slope), (two.alpha, two.slope * near)):
            other = np.log(measured * noise / (measured * noise).sum() / token_influence(40, 6, alpha, slope=slope))
            assert (other**2).mean() > (ratio**2).mean()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: position_response(1.0, 0.5), "tau must lie between 0 and s = 1"),
        (lambda: position_response(0.5, -1.0), "growth must be"),
        (lambda: layer_influence(0.0, 3, 0.5), "tau must lie between 0 and 1"),
        (lambda: layer_influence(0.5, 3, 1.5), "alpha must be at most 1"),
        (lambda: recency_ends(-1.0, 1.0), "slope must be"),
        (lambda: lost_time(1.0, 1.0, 1.0), "tau must be one number between 0 and 1, got 1"),
        (lambda: lost_time(0.5, 0.0, 1.0), "slope must be"),
        (lambda: token_influence(8, 2, 0.0), "alpha must be"),
        (lambda: fit_influence([0.1, 0.2], 3), r"influence must be a vector of at least 4 positive numbers, got shape \(2,\)"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
