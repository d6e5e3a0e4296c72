"""Long context: every formula against high precision, tokens, or an independent optimization."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import tokenfield as tkf
from tokenfield.plotting.long_context import phase_picture
from tokenfield.states.near_equal import nearly_equiangular
from tokenfield.theory.attention_scales import SCALES, attention_scale, choose_gamma
from tokenfield.theory.long_context import (
    causal_contraction,
    critical_gamma,
    layer_contraction,
    layer_contraction_limit,
    residual_layer_contraction,
)
from tokenfield.theory.long_context_depth import (
    iterated_contraction,
    iterated_contraction_limit,
    orthogonal_threshold,
)
from tokenfield.theory.nearly_equiangular import (
    nearly_equiangular_contraction,
    nearly_equiangular_limit,
    nearly_equiangular_threshold,
)


def exact(rho, n, beta, step=None):
    """The cosine in 60 digits, by counting the entries of the Gram matrix that each weight meets."""
    with mpmath.workdps(60):
        rho, n, beta = mpmath.mpf(float(rho)), mpmath.mpf(float(n)), mpmath.mpf(float(beta))
        own, other = mpmath.exp(beta), mpmath.exp(beta * rho)
        Z = own + (n - 1) * other
        a, c = own / Z, other / Z
        if step is not None:
            a, c = 1 + step * a, step * c
        square = a**2 + (n - 1) * c**2 + 2 * (n - 1) * rho * a * c + (n - 1) * (n - 2) * rho * c**2
        diagonal = 2 * a * c + (n - 2) * c**2
        crossed = a**2 + 2 * (n - 2) * a * c + c**2 + ((n - 1) ** 2 - (n - 2) - 1) * c**2
        return float((diagonal + rho * crossed) / square)


def root_of_gram(rho, n):
    """(n, n) tokens with the equiangular Gram matrix: sqrt(1-rho) I + b 11^T."""
    b = (np.sqrt(1 + (n - 1) * rho) - np.sqrt(1 - rho)) / n
    return np.sqrt(1 - rho) * np.eye(n) + b


@pytest.mark.parametrize("n", [2, 3, 50, 1e4, 1e12])
def test_one_layer_against_sixty_digits(n):
    low = -1 / (n - 1)
    rhos = np.array([low / 2, 0.0, 1e-6, 0.3, 0.5, 0.999999])
    betas = np.array([-30.0, -1.0, 0.0, 1e-9, 0.7, 5.0, 2 * np.log(n), 40.0, 1e6])
    got = layer_contraction(rhos[:, None], n, betas)
    wanted = [[exact(rho, n, beta) for beta in betas] for rho in rhos]
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)
    got = residual_layer_contraction(rhos[:, None], n, betas, 0.7)
    wanted = [[exact(rho, n, beta, 0.7) for beta in betas] for rho in rhos]
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_given_values():
    assert layer_contraction(0.5, 100, 2 * np.log(100)) == pytest.approx(0.802797, abs=5e-7)
    assert layer_contraction(0.5, 1e4, 2 * np.log(1e4)) == pytest.approx(0.800028, abs=5e-7)
    assert isinstance(layer_contraction(0.5, 100, 1.0), float)
    assert critical_gamma(0.5) == 2.0
    assert critical_gamma(1.0) == np.inf
    assert layer_contraction(1.0, 5, 1e6) == 1.0
    assert layer_contraction(-1 / 9, 10, 3.0) == -1 / 9


@pytest.mark.parametrize(("rho", "beta"), [(-0.1, 2.0), (0.0, 3.0), (0.4, -1.5), (0.7, 0.0)])
def test_layers_of_tokens(rho, beta):
    n, depth = 7, 4
    state = tkf.equiangular_tokens(rho, n)
    attended = np.asarray(tkf.Softmax(beta).of_itself(0.0, state))
    lengths = np.linalg.norm(attended[:2], axis=1)
    assert layer_contraction(rho, n, beta) == pytest.approx(attended[0] @ attended[1] / lengths.prod(), abs=1e-13)
    traj = tkf.layers(tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()), state, depth, step=0.6)
    measured = [tkf.pairwise_cosines(each) for each in traj.states]
    predicted = iterated_contraction(rho, n, beta, depth, residual=0.6)
    assert max(np.abs(cosines - value).max() for cosines, value in zip(measured, predicted, strict=True)) < 1e-12


def test_4096_tokens():
    n, rho = 4096, 0.35
    x = root_of_gram(rho, n)
    np.testing.assert_allclose(x[:3] @ x[:3].T, np.full((3, 3), rho) + (1 - rho) * np.eye(3), atol=1e-12)
    for gamma in (1.0, critical_gamma(rho), 2.0):
        beta = gamma * np.log(n)
        weights = np.exp(beta * (x[:2] @ x.T - 1))
        y = weights / weights.sum(axis=1, keepdims=True) @ x
        cosine = y[0] @ y[1] / np.linalg.norm(y[0]) / np.linalg.norm(y[1])
        assert layer_contraction(rho, n, beta) == pytest.approx(cosine, abs=1e-9)


def test_limits_are_approached():
    n = 1e12
    for rho in (0.2, 0.5, 0.8):
        gammas = critical_gamma(rho) * np.array([0.3, 1.0, 1.7])
        limits = layer_contraction_limit(rho, gammas)
        np.testing.assert_allclose(limits, [1, 4 * rho / (1 + 3 * rho), rho], rtol=1e-14)
        np.testing.assert_allclose(layer_contraction(rho, n, gammas * np.log(n)), limits, atol=1e-6)
        for step in (0.5, 1.0):
            limits = layer_contraction_limit(rho, gammas, residual=step)
            np.testing.assert_allclose(residual_layer_contraction(rho, n, gammas * np.log(n), step), limits, atol=1e-6)
    # A residual layer below the threshold does what attention alone does at it.
    assert layer_contraction_limit(0.5, 1.0, residual=1.0) == pytest.approx(0.8, rel=1e-15)
    assert layer_contraction_limit(1.0, 3.0) == 1.0


def test_orthogonal_tokens_part_earlier():
    np.testing.assert_array_equal(layer_contraction_limit(0.0, [0.49, 0.5, 0.51, 0.99, 1.5]), [1, 0.5, 0, 0, 0])
    n = 1e200
    for depth in (1, 2, 3, 5):
        threshold = orthogonal_threshold(depth)
        for gamma in (threshold - 0.02, threshold, threshold + 0.02):
            got = iterated_contraction(0.0, n, gamma * np.log(n), depth)
            np.testing.assert_allclose(got, iterated_contraction_limit(0.0, gamma, depth), atol=1e-5)


def test_iteration_and_its_limit():
    n = 1e12
    for gamma in (1.0, 2.0, 3.0):
        got = iterated_contraction(0.5, n, gamma * np.log(n), 3)
        np.testing.assert_allclose(got, iterated_contraction_limit(0.5, gamma, 3), atol=1e-5)
    np.testing.assert_allclose(iterated_contraction_limit(0.5, 2.0, 3), [0.5, 0.8, 1, 1], rtol=1e-15)
    limit = iterated_contraction_limit(0.1, 0.5, 4, residual=1.0)
    np.testing.assert_allclose(np.diff(np.log(limit / (1 - limit))), np.log(4), rtol=1e-12)
    betas = [1.0, 20.0]
    assert iterated_contraction(0.3, 30, betas, 2)[-1] == layer_contraction(layer_contraction(0.3, 30, 1.0), 30, 20.0)


@pytest.mark.parametrize("rho", [-0.1, 0.0, 0.6])
def test_causal_layer_with_a_scale_for_each_position(rho):
    n = 8
    x, betas = np.asarray(tkf.equiangular_tokens(rho, n).x), np.linspace(-1, 6, n)
    y = []
    for i in range(n):
        weights = np.array([np.exp(betas[i] * (x[i] @ x[k])) for k in range(i + 1)])
        y.append(sum(w * each for w, each in zip(weights / weights.sum(), x, strict=False)))
    y = np.array([each / np.linalg.norm(each) for each in y])
    i, j = np.triu_indices(n)
    got = causal_contraction(rho, i + 1, j + 1, betas[i], betas[j])
    np.testing.assert_allclose(got, np.einsum("ka,ka->k", y[i], y[j]), atol=1e-12)


def test_causal_layer_of_the_library():
    rho, n, beta = 0.3, 6, 2.5
    state = tkf.equiangular_tokens(rho, n)
    y = np.asarray(tkf.Softmax(beta, causal=True).of_itself(0.0, state))
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    i, j = np.triu_indices(n, 1)
    np.testing.assert_allclose(causal_contraction(rho, i + 1, j + 1, beta, beta), (y @ y.T)[i, j], atol=1e-13)


@pytest.mark.parametrize("residual", [None, 0.5, 1.0])
@pytest.mark.parametrize(
    ("rho", "n", "target"), [(0.5, 4096, 0.6), (-0.01, 50, 0.3), (0.0, 1e9, 0.01), (0.9, 20, 0.95)]
)
def test_chosen_gamma_is_the_smallest(rho, n, target, residual):
    after = (
        (lambda g: layer_contraction(rho, n, g * np.log(n)))
        if residual is None
        else (lambda g: residual_layer_contraction(rho, n, g * np.log(n), residual))
    )
    choice = choose_gamma(rho, n, target, residual)
    assert choice.cosine == pytest.approx(after(choice.gamma), abs=1e-15)
    assert choice.beta == pytest.approx(choice.gamma * np.log(n), rel=1e-15)
    if choice.gamma == 0:
        assert after(0.0) <= target
    else:
        assert choice.cosine == pytest.approx(target, rel=1e-9)
        assert after(choice.gamma * 0.999) > target > after(choice.gamma * 1.001)


def test_chosen_gamma_tends_to_the_critical_one():
    assert choose_gamma(0.5, 1e15).gamma == pytest.approx(2.0, abs=1e-8)
    assert choose_gamma(0.5, 1e15).critical == 2.0
    assert choose_gamma(0.3, 1000, 0.7, residual=1.0).gamma == 0.0
    assert choose_gamma(-1 / 9, 10, 0.2).gamma == 0.0


def test_published_scales():
    assert attention_scale("standard", 4096, base=8.0) == 8.0
    assert attention_scale("log", np.e**3) == pytest.approx(3.0)
    assert attention_scale("ssmax", np.e**2, base=2.0) == pytest.approx(0.43 * 4)
    np.testing.assert_allclose(attention_scale("logn", [10, 2048, 2048**2]), [1, 1, 2])
    np.testing.assert_allclose(attention_scale("yarn", [100, 4096 * np.e], n_train=4096), [1, 1.21])
    np.testing.assert_allclose(
        attention_scale("llama4", [8191, 8192, 3 * 8192]), [1, 1 + 0.1 * np.log(2), 1 + 0.1 * np.log(4)]
    )
    for name, scale in SCALES.items():
        assert scale.formula
        assert scale.source
        values = attention_scale(name, np.arange(1, 100_000, 999))
        assert (np.diff(values) >= 0).all()


def moment(k, D, power=0):
    return quad(lambda a: np.cos(a) ** power * np.sin(a) ** (D - 2) * np.exp(k * (np.cos(a) - 1)), 0, np.pi)[0]


@pytest.mark.parametrize(("d", "beta"), [(5, 0.3), (20, 12.0), (41, 60.0), (12, 4000.0)])
def test_finite_prediction_has_the_moments_of_the_sphere(d, beta):
    rho, n = 0.4, 500.0
    D, k = d - 1, beta * 0.6
    own = 1 / (1 + (n - 1) * moment(k, D) / moment(0, D))
    tilt = moment(k, D, 1) / moment(k, D)
    several = min(1.0, moment(2 * k, D) * moment(0, D) / moment(k, D) ** 2 / (n - 1))
    T = (own + (1 - own) * tilt) ** 2 + (1 - own) ** 2 * several * (1 - tilt**2)
    wanted = (rho + (1 - rho) * (1 - T) / (n - 1)) / (rho + (1 - rho) * T)
    assert nearly_equiangular_contraction(rho, n, d, beta) == pytest.approx(wanted, rel=1e-9)


def test_nearly_equiangular_becomes_equiangular_in_high_dimension():
    betas = np.array([0.0, 3.0, 10.0, 20.0])
    for rho in (0.0, 0.4):
        np.testing.assert_allclose(
            nearly_equiangular_contraction(rho, 1000, 1e10, betas), layer_contraction(rho, 1000, betas), atol=1e-6
        )
    assert nearly_equiangular_threshold(0.4, 1e8) == pytest.approx(critical_gamma(0.4), rel=1e-7)
    np.testing.assert_allclose(nearly_equiangular_limit(0.4, [1.0, 2.0], 1e8), layer_contraction_limit(0.4, [1.0, 2.0]))


@pytest.mark.parametrize("c", [0.3, 1.0, 3.0, 20.0])
def test_threshold_by_direct_optimization(c):
    """Below it the others outweigh a token, above it they do not, with tokens counted where they exist."""
    rho = 0.3
    edge = np.sqrt(-np.expm1(-2 / c))
    critical = nearly_equiangular_threshold(rho, c) * (1 - rho)

    def others(g):
        def exponent(s):
            return -(g * s + 1 + c / 2 * np.log1p(-s * s))

        return -minimize_scalar(exponent, bounds=(0, edge), method="bounded", options={"xatol": 1e-14}).fun

    assert others(critical) == pytest.approx(critical, rel=1e-8)
    assert others(0.98 * critical) > 0.98 * critical
    assert others(1.02 * critical) < 1.02 * critical
    assert critical > 1


@pytest.mark.parametrize("c", [1.5, 5.0, 50.0])
def test_finite_prediction_tends_to_its_limit(c):
    n, rho = 1e250, 0.4
    gammas = nearly_equiangular_threshold(rho, c) * np.array([0.5, 0.9, 1.1, 2.0])
    finite = nearly_equiangular_contraction(rho, n, 1 + c * np.log(n), gammas * np.log(n))
    np.testing.assert_allclose(finite, nearly_equiangular_limit(rho, gammas, c), atol=4e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "d"), [(0.5, 16), (0.2, 32)])
def test_nearly_equiangular_tokens(rho, d):
    n = 2048
    state = nearly_equiangular(rho, n, d, seed=3)
    x = np.asarray(state.x)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-14)
    scale = (1 - rho) / np.sqrt(d - 1)
    assert tkf.mean_cosine(state) == pytest.approx(rho, abs=0.01)
    assert tkf.pairwise_cosines(state).std() == pytest.approx(scale, rel=0.02)
    gammas = nearly_equiangular_threshold(rho, d / np.log(n)) * np.array([0.3, 0.7, 1.0, 1.5])
    predicted = nearly_equiangular_contraction(rho, n, d, gammas * np.log(n))
    for gamma, value in zip(gammas, predicted, strict=True):
        attended = tkf.Softmax(gamma * np.log(n)).of_itself(0.0, state, True)
        measured = tkf.mean_cosine(tkf.Tokens(attended))
        assert value == pytest.approx(measured, abs=2e-3)
        if gamma == gammas[2]:  # the equiangular formula is off by far more
            assert abs(layer_contraction(rho, n, gamma * np.log(n)) - measured) > 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layer_contraction(-0.2, 10, 1.0), r"rho must lie in \[-1/\(n-1\), 1\] = \[-0.111111, 1\], got -0.2"),
        (lambda: layer_contraction([0.5, 1.1], 10, 1.0), "rho must lie in .*got 1.1"),
        (lambda: layer_contraction(0.5, 1, 1.0), "n must be finite and at least 2, got 1"),
        (lambda: layer_contraction(0.5, 10, np.nan), "beta must be finite, got nan"),
        (lambda: layer_contraction(-1 / 9, 10, 0.0), "output of the layer is 0"),
        (lambda: residual_layer_contraction(0.5, 10, 1.0, -1.0), "step must be finite and >= 0, got -1"),
        (lambda: layer_contraction_limit(-0.1, 1.0), r"rho must lie in \[0, 1\], got -0.1"),
        (lambda: layer_contraction_limit(0.1, -1.0), "gamma must be finite and >= 0, got -1"),
        (lambda: critical_gamma(1.5), r"rho must lie in \[-1, 1\], got 1.5"),
        (lambda: causal_contraction(0.1, 0, 3, 1.0, 1.0), "i must be at least 1, got 0"),
        (lambda: causal_contraction(0.1, 4, 3, 1.0, 1.0), "i must be at most j, got i = 4 and j = 3"),
        (lambda: causal_contraction(0.1, 2, 3, np.inf, 1.0), "beta_i must be finite, got inf"),
        (lambda: iterated_contraction(0.1, 10, [1.0, 2.0], 3), "one entry for each of 3 layers"),
        (lambda: iterated_contraction(0.1, 10, 1.0, 0), "depth must be a whole number >= 1, got 0"),
        (lambda: attention_scale("ssmx", 10), "name must be one of standard, log, ssmax, .*got 'ssmx'"),
        (lambda: attention_scale("log", 10, s=1.0), "log takes gamma, got s"),
        (lambda: attention_scale("logn", 10, n_train=1.0), "n_train must be finite and > 1, got 1"),
        (lambda: attention_scale("log", 0), "n must be finite and at least 1, got 0"),
        (lambda: choose_gamma(0.5, 10, 0.4), r"target must lie between rho and 1, \(0.5, 1\), got 0.4"),
        (lambda: choose_gamma(0.0, 10), "target must be given for rho <= 0"),
        (lambda: nearly_equiangular_threshold(0.5, 0.0), "c must be finite and > 0, got 0"),
        (lambda: nearly_equiangular_threshold(0.5, np.inf), "c must be finite and > 0, got inf"),
        (lambda: nearly_equiangular_limit(0.5, "a", 1.0), "gamma must be a number or an array of numbers, got 'a'"),
        (lambda: nearly_equiangular_contraction(0.5, 10, 2, 1.0), "d must be finite and at least 3, got 2"),
        (lambda: nearly_equiangular(1.5, 10, 4), r"rho must lie in \[0, 1\], got 1.5"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_thresholds_beyond_all_numbers():
    """g grows like c e^(2/c) as c falls to 0: infinite from about c = 0.003 on, down to the least number."""
    found = nearly_equiangular_threshold(0.5, [2e-3, 1e-200, 1e-305, 5e-324])
    assert np.isinf(found).all()
    assert np.isfinite(nearly_equiangular_threshold(0.5, 4e-3))
    np.testing.assert_array_equal(nearly_equiangular_limit(0.5, 2.0, [1e-305, 5e-324]), 0.5)


def test_phase_picture_shows_the_formula():
    figure = phase_picture(n=(50, 1e6), gamma_max=4.0, points=40)
    panels = figure.axes[:2]
    for ax, n in zip(panels, (50, 1e6), strict=True):
        gamma, rho = ax.lines[0].get_data()
        np.testing.assert_allclose(gamma, 1 / (1 - rho))
        share = ax.collections[0].get_array().reshape(40, 40)
        row, column = 20, 25
        rho, gamma = np.linspace(0, 0.995, 40)[row], np.linspace(0, 4.0, 40)[column]
        assert share[row, column] == pytest.approx((exact(rho, n, gamma * np.log(n)) - rho) / (1 - rho), abs=1e-12)
    with pytest.raises(ValueError, match="n must hold at least one"):
        phase_picture(n=())
