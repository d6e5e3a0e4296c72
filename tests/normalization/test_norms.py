"""Contracts of every kernel × norm: velocity and layer against naive loops, and their symmetries."""

import jax.numpy as jnp
import naive
import numpy as np
import pytest
from cases import (
    ALPHA,
    B1,
    B2,
    CAUSAL,
    FREE,
    ISOTROPIC,
    KERNELS,
    NORMS,
    PAIRS,
    PARAMETERS,
    RULES,
    TAU,
    W1,
    W2,
    D,
    V,
    tokens,
    velocity,
)

import tokenfield as tkf

MLP = tkf.MLP(W1, W2, B1, B2, activation="tanh")


def naive_mlp(x):
    return naive.mlp(x, W1, B1, W2, B2, np.tanh)


@pytest.mark.parametrize(("kernel", "norm"), PAIRS)
def test_velocity_agrees_with_naive_loops(kernel, norm):
    state = tokens(unit=norm not in FREE)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    t, options = 0.6, PARAMETERS.get(norm, {})
    if norm == "rescaled":
        head = KERNELS[kernel].fast()
        pairs = zip(head.heads, head.outputs, strict=True) if isinstance(head, tkf.MultiHead) else ()
        several = [np.asarray(W.V) @ np.asarray(part.value.V) for part, W in pairs]
        expected = naive.rescaled_general(t, x, w, KERNELS[kernel].naive, sum(several) if several else V)
    else:
        read = naive.reads(norm, t, x, **options)
        expected = naive.velocity(norm, t, x, [KERNELS[kernel].naive(read, w)], **options)
    actual = velocity(tkf.Transformer(KERNELS[kernel].fast(), norm=RULES[norm]), state, t)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize(("kernel", "norm"), PAIRS)
def test_double_weight_moves_as_two_tokens(kernel, norm):
    state = tokens(unit=norm not in FREE)
    both = np.append(np.arange(state.n), 0)  # the first token twice, each with half of its weight
    halved = state.weights.at[0].multiply(0.5)[both]
    model = tkf.Transformer(KERNELS[kernel].fast(), norm=RULES[norm])
    expected = velocity(model, state, 0.6)[both]
    actual = velocity(model, tkf.Tokens(state.x[both], halved), 0.6)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.grid
@pytest.mark.parametrize(("kernel", "norm"), [pair for pair in PAIRS if pair[0] in CAUSAL])
def test_causal_velocity_depends_on_earlier_tokens_only(kernel, norm):
    state, other = (tokens(unit=norm not in FREE, seed=seed) for seed in (1, 2))
    changed = tkf.Tokens(state.x.at[4:].set(other.x[4:]), state.weights)
    model = tkf.Transformer(KERNELS[kernel].fast(causal=True), norm=RULES[norm])
    before, after = velocity(model, state, 0.6), velocity(model, changed, 0.6)
    np.testing.assert_array_equal(before[:4], after[:4])
    assert np.abs(before[4:] - after[4:]).max() > 1e-3


@pytest.mark.grid
@pytest.mark.parametrize(("kernel", "norm"), [pair for pair in PAIRS if pair[0] != "sinkhorn-symmetric"])
def test_scores_that_depend_on_time_are_those_of_the_moment(kernel, norm):
    state = tokens(unit=norm not in FREE)
    moving = lambda M: lambda t: jnp.cos(t) * M + jnp.sin(t) * M[:, ::-1]  # noqa: E731
    model = tkf.Transformer(KERNELS[kernel].fast(score=moving), norm=RULES[norm])
    for t in (0.7, 1.9):  # before and after Mix-LN changes its rule
        still = tkf.Transformer(KERNELS[kernel].fast(score=lambda M, t=t: moving(M)(t)), norm=RULES[norm])
        expected = velocity(still, state, t)
        np.testing.assert_allclose(velocity(model, state, t), expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("norm", NORMS)
def test_velocity_with_an_mlp_and_late_times(norm):
    state = tokens(unit=norm not in FREE)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    t, options = 2.5, PARAMETERS.get(norm, {})
    read = naive.reads(norm, t, x, **options)
    drifts = [KERNELS["softmax"].naive(read, w), naive_mlp(read)]
    expected = naive.velocity(norm, t, x, drifts, **options)
    actual = velocity(tkf.Transformer(KERNELS["softmax"].fast(), norm=NORMS[norm], mlp=MLP), state, t)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.grid
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_layers_agree_with_naive_loops(kernel, norm):
    state = tokens(unit=norm not in FREE)
    w, h = np.asarray(state.weights), 0.4
    depth = (
        2 if (kernel, norm) == ("unnormalized", "none") else 5
    )  # it overflows; tau = 1.5 falls between layers 3 and 4
    sublayers = [lambda read: KERNELS[kernel].naive(read, w), naive_mlp]
    model = tkf.Transformer(KERNELS[kernel].fast(), norm=NORMS[norm], mlp=MLP)
    traj = tkf.layers(model, state, depth=depth, step=h)
    np.testing.assert_allclose(traj.times, h * np.arange(depth + 1))
    x = traj.dataset["x"].values
    np.testing.assert_array_equal(x[0], state.x)
    for index in range(depth):
        expected = naive.layer(norm, index * h, x[index], sublayers, h, **PARAMETERS.get(norm, {}))
        np.testing.assert_allclose(x[index + 1], expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.grid
@pytest.mark.parametrize("norm", [name for name in NORMS if name not in FREE])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_layers_take_tokens_of_any_length(norm, seed):
    """The first layer reads them as they are, `N(x + h A(x))`; the start is the first state."""
    state, h = tokens(unit=False, seed=seed), 0.4
    w, options = np.asarray(state.weights), PARAMETERS.get(norm, {})
    sublayers = [lambda read: KERNELS["softmax"].naive(read, w), naive_mlp]
    model = tkf.Transformer(KERNELS["softmax"].fast(), norm=NORMS[norm], mlp=MLP)
    x = tkf.layers(model, state, depth=5, step=h).dataset["x"].values
    np.testing.assert_array_equal(x[0], state.x)
    assert np.abs(np.linalg.norm(x[0], axis=1) - 1).max() > 0.1
    for index in range(5):
        expected = naive.layer(norm, index * h, x[index], sublayers, h, **options)
        np.testing.assert_allclose(x[index + 1], expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="needs tokens of positive length, but token 2 is zero"):
        tkf.layers(model, tkf.Tokens(state.x.at[2].set(0.0)), depth=1)


@pytest.mark.grid
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kernel", ISOTROPIC)
def test_flow_commutes_with_rotations_and_permutations(kernel, norm):
    state = tokens(unit=norm not in FREE)
    model = tkf.Transformer(ISOTROPIC[kernel][0](), norm=NORMS[norm])
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((D, D)))[0]
    order = np.random.default_rng(0).permutation(state.n)
    moved = tkf.Tokens((state.x @ rotation.T)[order], state.weights[order])
    expected = velocity(model, state, 0.6)
    atol = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(velocity(model, moved, 0.6), (expected @ rotation.T)[order], rtol=0, atol=atol)


def test_gain_is_the_layer_norm_of_R_d():
    g, state = np.array([1.0, 0.5, 2.0]), tokens(unit=False)
    x = np.asarray(state.x)
    layer_norm = lambda y: g * y / np.linalg.norm(y, axis=1, keepdims=True) * np.sqrt(3)  # noqa: E731
    attend = lambda y: naive.softmax(y, np.asarray(state.weights), 0.3 * np.eye(3), np.eye(3))  # noqa: E731
    h = 0.5
    step = lambda norm, start: np.asarray(tkf.layers(tkf.Transformer(tkf.Softmax(0.3), norm), start, 1, h).final.x)  # noqa: E731
    np.testing.assert_allclose(step(tkf.PreLN(gain=g), state), x + h * attend(layer_norm(x)), rtol=1e-12)
    out = attend(layer_norm(x))
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    np.testing.assert_allclose(step(tkf.PeriLN(gain=g), state), x + h * out, rtol=1e-12)
    start = layer_norm(x)
    np.testing.assert_allclose(
        step(tkf.PostLN(gain=g), tkf.Tokens(start, state.weights)), layer_norm(start + h * attend(start)), rtol=1e-12
    )


@pytest.mark.slow
def test_flow_of_post_ln_with_a_uniform_gain_lives_on_the_sphere_of_radius_g_sqrt_d():
    """There it is the limit of the layers, and x' = P A(x)."""
    g, state = 1.5, tokens()
    radius = g * np.sqrt(3)
    start = tkf.Tokens(radius * state.x, state.weights)
    model = tkf.Transformer(tkf.Softmax(0.3), tkf.PostLN(gain=g))
    x = np.asarray(start.x)
    drift = naive.softmax(x, np.asarray(state.weights), 0.3 * np.eye(3), np.eye(3))
    expected = drift - (drift * x).sum(1, keepdims=True) * x / radius**2
    np.testing.assert_allclose(velocity(model, start), expected, atol=1e-13)
    flow = tkf.simulate(model, start, t1=0.5, rtol=1e-11, atol=1e-12).final.x
    errors = [np.abs(tkf.layers(model, start, depth, 0.5 / depth).final.x - flow).max() for depth in (50, 100)]
    assert errors[1] < 2e-3
    assert 1.9 < errors[0] / errors[1] < 2.1
    many = tkf.simulate_many(model, [start, start], t1=0.5, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(many[1].final.x, flow, atol=1e-10)


def test_unequal_gain_has_no_flow_under_post_ln():
    start = tkf.layers(tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(gain=[1.0, 2.0, 1.0])), tokens(), 1).final
    with pytest.raises(ValueError, match="use layers"):
        tkf.simulate(tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(gain=[1.0, 2.0, 1.0])), start, t1=1.0)


@pytest.mark.parametrize("norm", [name for name in NORMS if name not in ("none", "mix")])
def test_speed_and_growth_make_the_velocity(norm):
    """theta' = speed P A and r' = growth, as the table of FORMULAS §7 says."""
    rule, t = NORMS[norm], 0.6
    theta, A, r = np.array([0.6, 0.8]), np.array([0.3, -1.1]), np.array(1.7 if norm in FREE else 1.0)
    inner, length = theta @ A, np.linalg.norm(A)
    s = {"post": 1, "pre": r, "peri": r * length, "ngpt": length / ALPHA, "sqrt": np.sqrt(t + 1)}[norm]
    growth = {"pre": inner, "peri": inner / length}.get(norm, 0)
    arguments = [jnp.asarray(v) for v in (t, r, inner, length)]
    np.testing.assert_allclose(rule.speed(*arguments), 1 / s, rtol=1e-15)
    np.testing.assert_allclose(rule.growth(*arguments), growth, rtol=1e-15)


def test_mix_ln_is_post_then_pre():
    (first_end, first), (last_end, last) = NORMS["mix"].segments()
    assert (first_end, last_end) == (TAU, float("inf"))
    assert isinstance(first, tkf.PostLN)
    assert isinstance(last, tkf.PreLN)


@pytest.mark.parametrize(
    "attention", [tkf.Unnormalized(50.0, V=np.eye(3)), tkf.Unnormalized(2.0, V=np.eye(3), log_unit=1.0)]
)
def test_time_unit_is_one_where_only_the_direction_of_the_drift_matters(attention):
    state = tokens()
    for norm, unit in ((tkf.PostLN(), -float(attention.log_unit)), (tkf.NGPT(), 0.0), (tkf.PeriLN(), 0.0)):
        traj = tkf.simulate(tkf.Transformer(attention, norm), state, t1=0.01, save_at=2)
        assert traj.log_time_unit == unit
