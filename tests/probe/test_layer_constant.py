"""The derivative of a layer with real weights: against finite differences, `lipschitz.local`, and bounds."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.lipschitz import bounds, local
from tokenfield.probe.extract import attention_of, in_sequence, output
from tokenfield.probe.families import HeadWeights
from tokenfield.probe.layer_constant import HeadsDerivative, layer_constant
from tokenfield.probe.powers import with_powers
from tokenfield.probe.worst_case import extremes, single, worst_case

H, K, D, N = 3, 4, 7, 6


def made(seed=0, biases=True, **options):
    rng = np.random.default_rng(seed)
    maps = [part for _ in range(3) for part in (rng.standard_normal((H, K, D)), biases * rng.standard_normal((H, K)))]
    return HeadWeights(*maps, rng.standard_normal((H, D, K)), biases * rng.standard_normal(D), K**-0.5, **options)


CASES = {
    "plain": {"biases": False},
    "biases": {},
    "causal": {"causal": True},
    "rotary": {"frequencies": np.array([1.0, 0.3]), "causal": True},
}


@pytest.fixture
def tokens():
    return np.random.default_rng(1).standard_normal((N, D))


@pytest.mark.parametrize("case", CASES)
def test_derivative_is_that_of_the_layer_and_its_transpose_is_its_transpose(case, tokens):
    weights = made(**CASES[case])
    D_x, attention = HeadsDerivative(weights, tokens), attention_of(weights)
    rng = np.random.default_rng(2)
    e, u = rng.standard_normal((2, N, D))
    h = 1e-5
    move = lambda x: output(attention, in_sequence(x))  # noqa: E731
    difference = (move(tokens + h * e) - move(tokens - h * e)) / (2 * h)
    np.testing.assert_allclose(D_x.apply(e), difference, atol=1e-7)
    assert np.vdot(D_x.apply(e), u) == pytest.approx(np.vdot(e, D_x.transpose(u)), rel=1e-11)


@pytest.mark.parametrize("case", CASES)
def test_constant_is_that_of_the_lipschitz_package(case, tokens):
    weights = made(**CASES[case])
    found = layer_constant(weights, tokens, rtol=1e-9)
    assert found.converged
    assert found.constant == pytest.approx(local(attention_of(weights), in_sequence(tokens)).constant, rel=1e-8)
    dense = [HeadsDerivative(weights, tokens).apply(e.reshape(N, D)).ravel() for e in np.eye(N * D)]
    assert found.constant == pytest.approx(np.linalg.norm(dense, 2), rel=1e-8)
    assert found.upper >= found.constant


def test_a_window_hides_what_is_far(tokens):
    """Token i sees i-1 and i: moving token 0 moves no output from 2 on."""
    D_x = HeadsDerivative(made(causal=True, window=2), tokens)
    e = np.zeros((N, D))
    e[0] = 1.0
    moved = np.abs(D_x.apply(e)).max(1)
    assert moved[:2].min() > 1e-3
    assert moved[2:].max() == 0


def test_upper_bound_is_its_formula_and_holds():
    weights, x = made(biases=False), np.random.default_rng(3).standard_normal((N, D))
    total = 0.0
    for Q, K_, V, O in zip(weights.Q, weights.K, weights.V, weights.O, strict=True):  # noqa: E741
        q, k, values = x @ Q.T * weights.scaling, x @ K_.T, x @ V.T @ O.T
        P = np.exp(q @ k.T)
        P /= P.sum(1, keepdims=True)
        diameter = lambda y: max(np.linalg.norm(a - b) for a in y for b in y)  # noqa: E731
        norm = lambda M: np.linalg.svd(M)[1][0]  # noqa: E731
        total += np.sqrt(P.sum(0).max()) * (norm(O @ V) + norm(K_) * max(map(np.linalg.norm, q)) * diameter(values) / 2)
        total += weights.scaling * norm(Q) * diameter(values) * diameter(k) / 4
    upper = layer_constant(weights, x).upper
    assert upper == pytest.approx(total, rel=1e-10)
    for scale in (0.1, 1.0, 5.0):
        found = layer_constant(made(seed=7), scale * x)
        assert found.constant <= found.upper


def test_worst_tokens_lie_between_the_bounds_of_the_theory():
    weights = made(seed=4, biases=False)
    R, lengths = 3.0, (2, 5, 40)
    for head in range(H):
        found = worst_case(weights, head, R, lengths, rtol=1e-8)
        A = weights.scaling * weights.K[head].T @ weights.Q[head]
        W = weights.O[head] @ weights.V[head]
        proved = [bounds(A, W, R, n) for n in lengths]
        np.testing.assert_allclose(np.maximum(found.lower, np.linalg.norm(W, 2)), [b.lower for b in proved], rtol=1e-6)
        np.testing.assert_allclose(found.upper, [b.sharp_upper for b in proved], rtol=1e-10)
        assert found.exponent == pytest.approx(R**2 * proved[0].gap, rel=1e-9)
        assert (found.constants >= found.lower * (1 - 1e-7)).all()
        assert (found.constants <= found.upper).all()
        x = R * np.vstack([extremes(weights, head).first, np.tile(extremes(weights, head).u, (4, 1))])
        head_alone = tkf.Softmax(A=A, V=W)
        assert found.constants[1] == pytest.approx(local(head_alone, x).constant, rel=1e-7)


def test_worst_tokens_of_a_sharp_head_grow_like_the_root():
    found = worst_case(made(seed=9, biases=False), 0, 8.0, (64, 256, 1024))
    assert found.exponent > 50  # so e^{R^2 g} is far above 1024
    assert found.law.power == pytest.approx(0.5, abs=0.005)


def test_whole_layer_at_the_worst_tokens_is_the_layer_with_its_biases():
    weights, R = made(seed=6), 2.0
    found = worst_case(weights, 1, R, (5, 9), whole=True, rtol=1e-8)
    at = extremes(weights, 1)
    for n, constant in zip((5, 9), found.constants, strict=True):
        x = R * np.vstack([at.first, np.tile(at.u, (n - 1, 1))])
        both = [local(attention_of(weights), in_sequence(sign * x)).constant for sign in (1, -1)]
        assert constant == pytest.approx(max(both), rel=1e-7)
    alone = single(weights, 1)
    assert alone.Q.shape == (1, K, D)
    assert not alone.q.any()
    with pytest.raises(ValueError, match="head must be between 0 and 2, got 3"):
        worst_case(weights, 3, R)


def test_fitted_powers_are_exact():
    import xarray

    lengths = np.array([4, 8, 16, 32])
    values = np.stack([3 * lengths**p for p in (0.1, 0.5)])[:, :, None] * np.ones(3)
    values[1, 0, 0] = np.nan
    data = xarray.Dataset({"lipschitz": (("block", "length", "sample"), values)}, coords={"length": lengths})
    found = with_powers(data)
    assert float(found["lipschitz_power"][0]) == pytest.approx(0.1, rel=1e-10)
    assert float(found["lipschitz_power_low"][0]) == pytest.approx(0.1, rel=1e-6)
    assert np.isnan(found["lipschitz_power"][1])
