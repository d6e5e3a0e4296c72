"""Contracts of every kernel: agreement with naive loops, and the symmetries of FORMULAS §1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BETA, CAUSAL, ISOTROPIC, KERNELS, D, gamma, tokens

import tokenfield as tkf
from tokenfield._xla.exponential import exp, exp2
from tokenfield.attention import Measure


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_agrees_with_naive_loops(name, unit):
    state = tokens(unit=unit)
    expected = KERNELS[name].naive(np.asarray(state.x), np.asarray(state.weights))
    np.testing.assert_allclose(
        gamma(KERNELS[name].fast(), state), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", ISOTROPIC)
def test_isotropic_form_agrees_with_naive_loops_on_and_off_the_sphere(name):
    fast, naive = ISOTROPIC[name]
    for unit in (True, False):
        state = tokens(unit=unit)
        expected = naive(np.asarray(state.x), np.asarray(state.weights))
        np.testing.assert_allclose(
            gamma(fast(), state, unit=unit), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
        )


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_agrees_with_naive_loops(name):
    state = tokens(unit=False)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    expected = KERNELS[name].naive(x, w, causal=True)
    atol = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(gamma(KERNELS[name].fast(causal=True), state), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", CAUSAL)
def test_masking_by_position_agrees_with_naive_loops(name):
    state = tokens(unit=False)
    positions = np.array([0.3, 0.9, 0.0, 0.5, 0.5, 1.0, 0.2])
    placed = tkf.Tokens(state.x, state.weights, positions)
    expected = KERNELS[name].naive(np.asarray(state.x), np.asarray(state.weights), causal=True, s=positions)
    atol = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(gamma(KERNELS[name].fast(causal=True), placed), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_output_depends_on_earlier_tokens_only(name):
    attention, state = KERNELS[name].fast(causal=True), tokens(unit=False)
    changed = tkf.Tokens(state.x.at[4:].multiply(-3.0), state.weights, state.positions)
    before, after = gamma(attention, state), gamma(attention, changed)
    np.testing.assert_array_equal(before[:4], after[:4])
    assert np.abs(before[4:] - after[4:]).max() > 1e-3


@pytest.mark.parametrize("name", KERNELS)
def test_permutation_equivariance(name):
    attention, state = KERNELS[name].fast(), tokens(unit=False)
    order = np.random.default_rng(0).permutation(state.n)
    permuted = tkf.Tokens(state.x[order], state.weights[order])
    out = gamma(attention, state)
    np.testing.assert_allclose(gamma(attention, permuted), out[order], rtol=0, atol=1e-12 * np.abs(out).max())


@pytest.mark.parametrize("name", ISOTROPIC)
def test_rotation_equivariance(name):
    attention, state = ISOTROPIC[name][0](), tokens()
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((D, D)))[0]
    turned = tkf.Tokens(state.x @ rotation.T, state.weights)
    out = gamma(attention, state, unit=True)
    np.testing.assert_allclose(
        gamma(attention, turned, unit=True), out @ rotation.T, rtol=0, atol=1e-12 * np.abs(out).max()
    )


@pytest.mark.parametrize("name", KERNELS)
def test_double_weight_equals_two_tokens(name):
    attention, state = KERNELS[name].fast(), tokens(unit=False)
    double = tkf.Tokens(
        jnp.concatenate([state.x, state.x[:1]]),
        jnp.concatenate([state.weights.at[0].multiply(0.5), state.weights[:1] / 2]),
    )
    out = gamma(attention, state)
    np.testing.assert_allclose(gamma(attention, double)[:-1], out, rtol=0, atol=1e-12 * np.abs(out).max())


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "hardmax-others", "l2"])
def test_blocks_do_not_change_the_sum(name, monkeypatch):
    from tokenfield.attention import sums

    attention, state = KERNELS[name].fast(), tokens(n=101, unit=False)
    whole = gamma(attention, state)
    monkeypatch.setattr(sums, "BLOCK_ENTRIES", 101 * 16)
    np.testing.assert_allclose(gamma(attention, state), whole, rtol=0, atol=1e-13 * np.abs(whole).max())


@pytest.mark.grid
@pytest.mark.parametrize("name", ["softmax", "unnormalized", "linear", "relu", "sigmoid", "l2"])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (63, 3), (1500, 3), (1100, 300)])
def test_pair_sums_equal_row_sums(name, n, d):
    """Whole, by strips and by blocks; the tokens have weights, and n is no multiple of a block."""
    attention, state = ISOTROPIC[name][0](), tokens(n=n, d=d)
    rows = gamma(attention, state, unit=False)
    np.testing.assert_allclose(gamma(attention, state, unit=True), rows, rtol=0, atol=1e-13 * np.abs(rows).max())


def test_fast_exponential_is_right_to_rounding():
    t = -np.concatenate([np.linspace(0, 3, 20_001), np.geomspace(1e-20, 1020, 20_001)])
    np.testing.assert_allclose(exp2(jnp.asarray(t)), np.exp2(t), rtol=4e-16)
    np.testing.assert_allclose(
        exp2(jnp.asarray(t[t > -120], jnp.float32)), np.exp2(t[t > -120].astype("f4")), rtol=3e-7
    )
    assert float(exp2(jnp.asarray(-1e300))) <= 1e-307
    slope = jax.grad(exp2)(-1.5)
    np.testing.assert_allclose(slope, np.log(2) * 2**-1.5, rtol=1e-15)


def test_natural_exponential_is_right_for_all_arguments():
    s = np.concatenate([np.linspace(-708, 709.78, 5001), np.linspace(-1, 1, 501), [0.0, 1e-300, -1e-17]])
    np.testing.assert_allclose(jax.jit(exp)(jnp.asarray(s)), np.exp(s), rtol=5e-16)
    short = s[np.abs(s) < 87].astype("f4")
    np.testing.assert_allclose(exp(jnp.asarray(short)), np.exp(short.astype(float)), rtol=2e-7)
    beyond = exp(jnp.asarray([709.8, np.inf, -709.0, -np.inf, np.nan]))
    assert np.isposinf(beyond[:2]).all()
    assert (beyond[2:4] <= 2.3e-308).all()
    assert np.isnan(beyond[4])
    assert jax.grad(exp)(0.7) == pytest.approx(np.exp(0.7), rel=1e-15)


def test_functions_of_time_are_evaluated_at_time():
    state, t = tokens(unit=False), 0.8
    A, V = np.arange(9.0).reshape(3, 3) / 5, np.eye(3)[::-1]
    moving = tkf.Softmax(A=lambda t: jnp.sin(t) * A, V=lambda t: t**2 * V)
    fixed = tkf.Softmax(A=np.sin(t) * A, V=t**2 * V)
    np.testing.assert_allclose(gamma(moving, state, t), gamma(fixed, state), rtol=1e-14)
    warmer = tkf.Softmax(beta=lambda t: 2 * t)
    np.testing.assert_allclose(gamma(warmer, state, t), gamma(tkf.Softmax(beta=2 * t), state), rtol=1e-14)


def test_query_and_key_maps_are_A_equal_to_K_transpose_Q():
    rng, state = np.random.default_rng(0), tokens(unit=False)
    Q, K = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    np.testing.assert_allclose(
        gamma(tkf.Softmax(1.3, Q=Q, K=K), state), gamma(tkf.Softmax(A=1.3 * K.T @ Q), state), rtol=1e-13
    )


def test_l2_is_softmax_of_twice_beta_on_the_sphere():
    state = tokens()
    np.testing.assert_allclose(gamma(tkf.L2(BETA), state), gamma(tkf.Softmax(2 * BETA), state), rtol=1e-13)


def test_sinkhorn_marginals_and_convergence_flag():
    state = tokens(n=30)
    P = tkf.attention_matrix(state, tkf.Sinkhorn(beta=8.0, tolerance=1e-12))
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(state.weights) @ P, state.weights, rtol=0, atol=1e-12)
    assert np.isnan(gamma(tkf.Sinkhorn(beta=8.0, tolerance=1e-12, max_iterations=1), state)).all()


@pytest.mark.slow
def test_float32_stays_float32():
    state = tokens(n=20)
    x, w, s = (a.astype(jnp.float32) for a in (state.x, state.weights, state.positions))
    for attention in (tkf.Softmax(2.0), tkf.Unnormalized(2.0), tkf.L2(2.0), tkf.Softmax(A=np.eye(3))):
        for unit in (True, False):
            out = attention.of_itself(jnp.zeros((), jnp.float32), Measure(x, w, s), unit)
            assert out.dtype == jnp.float32
            np.testing.assert_allclose(out, gamma(attention, state), rtol=1e-4)


def test_hardmax_is_the_limit_of_softmax():
    state = tokens(n=12, unit=False, weighted=False)
    A = np.diag([1.0, 2.0, 0.5])
    np.testing.assert_allclose(gamma(tkf.Hardmax(A=A), state), gamma(tkf.Softmax(A=1e4 * A), state), atol=1e-12)


def test_hardmax_rules_on_coincident_tokens_and_ties():
    x = [[1.0, 0.0], [1.0, 0.0], [0.0, 0.5], [0.0, -0.5]]
    own = gamma(tkf.Hardmax(rule="self"), tkf.Tokens(x))
    np.testing.assert_allclose(own, x, atol=1e-15)
    others = gamma(tkf.Hardmax(rule="others"), tkf.Tokens(x))
    np.testing.assert_allclose(others[:2], 0, atol=1e-15)  # the two at (0, ±1/2) tie with score 0
    np.testing.assert_allclose(others[2], [1.0, 0.0], atol=1e-15)  # the coincident pair ties with itself
    alone = gamma(tkf.Hardmax(rule="others"), tkf.Tokens([[0.6, 0.8], [0.6, 0.8]]))
    np.testing.assert_allclose(alone, [[0.6, 0.8]] * 2)


@pytest.mark.parametrize("rule", ["self", "others"])
def test_double_weight_counts_twice_in_a_tie_of_hardmax(rule):
    """Of generic tokens hardmax sees one, whatever its weight; here the first token ties the other two."""
    x = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    heavy = gamma(tkf.Hardmax(rule=rule), tkf.Tokens(x, [0.25, 0.5, 0.25]))
    twice = gamma(tkf.Hardmax(rule=rule), tkf.Tokens(x[[0, 1, 1, 2]]))
    np.testing.assert_allclose(heavy[0], [4 / 3, 2 / 3] if rule == "others" else [5 / 4, 3 / 4], rtol=1e-15)
    np.testing.assert_allclose(twice[[0, 1, 3]], heavy, rtol=1e-15)


def test_memory_grows_with_n_only():
    n = 20_000
    x, w = jnp.zeros((n, 3)), jnp.zeros(n)
    for attention, unit in ((tkf.Softmax(9.0), True), (tkf.Softmax(9.0), False)):
        call = jax.jit(lambda x, w, a=attention, u=unit: a.of_itself(jnp.zeros(()), Measure(x, w, w), u))
        assert call.lower(x, w).compile().memory_analysis().temp_size_in_bytes < 300e6
