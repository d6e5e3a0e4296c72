"""The response of the last token to a perturbation at a position: eigenfunctions, a matrix of many tokens, values of FORMULAS."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

from tokenfield.theory import layer_influence, position_response, recency_ends


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


def test_powers_of_the_causal_layer():
    n, L, alpha = 3000, 5, 0.4
    row = np.zeros(n)
    row[-1] = 1.0
    weight = 1 / np.arange(1, n + 1)
    for _ in range(L):  # a row times ((1-alpha) I + alpha C), C_ij = 1/i for j <= i
        row = (1 - alpha) * row + alpha * np.cumsum((row * weight)[::-1])[::-1]
    tau = (np.arange(n) + 0.5) / n
    inside = slice(n // 20, 19 * n // 20)
    np.testing.assert_allclose(n * row[inside], layer_influence(tau[inside], L, alpha), rtol=5e-3)
    assert layer_influence(0.3, 4, 1.0) == pytest.approx(np.log(1 / 0.3) ** 3 / 6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: position_response(1.0, 0.5), "tau must lie between 0 and s = 1"),
        (lambda: position_response(0.5, -1.0), "growth must be"),
        (lambda: layer_influence(0.0, 3, 0.5), "tau must lie between 0 and 1"),
        (lambda: layer_influence(0.5, 3, 1.5), "alpha must be at most 1"),
        (lambda: recency_ends(-1.0, 1.0), "slope must be"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
