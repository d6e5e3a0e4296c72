"""Local Lipschitz constants against dense singular values of derivatives by automatic differentiation."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from cases import B1, B2, CAUSAL, KERNELS, NORMS, TAU, W1, W2, A, V, tokens
from scipy.special import logsumexp

import tokenfield as tkf
from tokenfield.attention import AbstractGeneralHead, Measure
from tokenfield.attention.parameters import Bilinear, ValueMap
from tokenfield.lipschitz import local, pairwise
from tokenfield.lipschitz.layer import attention_derivative

MLP = tkf.MLP(W1=W1, b1=B1, W2=W2, b2=B2)


def dense(f, state):
    """The derivative of f as an (n dv, n d) matrix, in the norm of weighted tokens."""
    n, d = state.x.shape
    J = np.asarray(jax.jit(jax.jacfwd(f))(state.x))
    root = np.sqrt(n * np.asarray(state.weights))
    return (J * root[:, None, None, None] / root[:, None]).reshape(-1, n * d)


def gamma_of(attention, state):
    return lambda x: attention.of_itself(jnp.zeros(()), Measure(x, state.weights, state.positions))


def agree(found, J, state, rtol=1e-11):
    """Values, vectors, residuals and intervals."""
    s = np.linalg.svd(J, compute_uv=False)
    k, n = len(found.values), state.n
    assert found.converged
    np.testing.assert_allclose(found.values, s[:k], rtol=0, atol=rtol * s[0])
    root = np.sqrt(n * np.asarray(state.weights))[:, None]
    right, left = ((root * v).reshape(k, -1) for v in (found.right, found.left))
    np.testing.assert_allclose(right @ right.T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(right @ J.T, found.values[:, None] * left, atol=1e-12 * s[0])
    residual = np.linalg.norm(left @ J - found.values[:, None] * right, axis=1)
    assert (residual / np.sqrt(2) <= found.radius + 1e-14 * s[0]).all()
    assert (found.radius <= 1.01e-8 * s[0]).all()
    for low, high in found.intervals:
        assert ((s >= low) & (s <= high)).any()


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("name", [name for name in KERNELS if "sinkhorn" not in name])
@pytest.mark.parametrize("causal", [False, True])
def test_every_kernel(name, causal):
    state = tokens(unit=False)
    if causal:
        places = np.random.default_rng(5).permutation(state.n) // 2 / 10  # out of order, and some alike
        state = tkf.Tokens(state.x, state.weights, places)
    if name.startswith("hardmax") and causal:
        state = tkf.Tokens(state.x, state.weights)
    assert not causal or name in CAUSAL
    attention = KERNELS[name].fast(causal)
    agree(local(attention, state, top_k=3), dense(gamma_of(attention, state), state), state)


def unrolled_sinkhorn(A, V, w):
    """Scaling rows and columns in turn, 400 times, in a way that can be differentiated forwards."""

    def f(x):
        s, log_w = x @ A.T @ x.T, jnp.log(w)

        def scale(_, f):
            g = -jax.nn.logsumexp(s + (f + log_w)[:, None], 0)
            return -jax.nn.logsumexp(s + g + log_w, 1)

        f = jax.lax.fori_loop(0, 400, scale, jnp.zeros(len(w)))
        g = -jax.nn.logsumexp(s + (f + log_w)[:, None], 0)
        return jnp.exp(s + f[:, None] + g + log_w) @ x @ V.T

    return f


@pytest.mark.parametrize("symmetric", [False, True])
def test_sinkhorn(symmetric):
    state, matrix = tokens(n=5, unit=False), 0.7 * (A + A.T if symmetric else A)
    attention = tkf.Sinkhorn(A=matrix, V=V, tolerance=1e-13)
    f = unrolled_sinkhorn(matrix, V, state.weights)
    np.testing.assert_allclose(f(state.x), naive.sinkhorn(np.asarray(state.x), np.asarray(state.weights), matrix, V))
    agree(local(attention, state, top_k=3), dense(f, state), state, rtol=1e-10)


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize(("norm", "t"), [*((norm, 0.5) for norm in NORMS), ("mix", 2.0)])
def test_layers_with_every_norm(norm, t):
    """The whole layer: attention, MLP, residual connections, norm; on both sides of Mix-LN's switch."""
    model = tkf.Transformer(tkf.Softmax(A=A, V=V), norm=NORMS[norm], mlp=MLP)
    state, h = tokens(n=4, unit=False), 0.6
    rule = {"mix": tkf.PostLN() if t < TAU else tkf.PreLN()}.get(norm, NORMS[norm])

    def layer(x):
        for sublayer in model.sublayers(jnp.asarray(t), state.weights, state.positions):
            x = rule.layer(jnp.asarray(t), x, sublayer, h)
        return x

    J = dense(layer, state)
    agree(local(model, state, top_k=2, t=t, step=h), J, state)
    if norm in ("none", "pre"):
        agree(local(model, state, top_k=2, t=t, step=h, residual=False), J - np.eye(len(J)), state)


def test_post_ln_with_a_gain():
    model = tkf.Transformer(tkf.Softmax(beta=0.5), norm=tkf.PostLN(gain=[1.0, 0.5, 2.0]))
    state = tokens(n=4, unit=False)
    J = dense(lambda x: model.norm.layer(0.0, x, gamma_of(model.attention, state), 1.0), state)
    agree(local(model, state), J, state)


def test_residual_connection_of_an_attention():
    state, attention = tokens(unit=False), tkf.Softmax(A=A, V=V)
    J = dense(gamma_of(attention, state), state)
    agree(local(attention, state, residual=True, step=0.3), np.eye(len(J)) + 0.3 * J, state)
    agree(local(attention, state, step=0.3), 0.3 * J, state)
    bare = tkf.Transformer(attention)
    assert local(bare, state).constant == pytest.approx(local(attention, state, residual=True).constant, rel=1e-13)


def test_narrow_values_and_a_head_that_leaves_the_space():
    state = tokens(unit=False)
    attention = tkf.Softmax(A=A, V=V[:2])
    agree(local(attention, state, top_k=2), dense(gamma_of(attention, state), state), state)
    with pytest.raises(ValueError, match=r"residual needs V to map R\^3 to itself, got .* R\^2"):
        local(attention, state, residual=True)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", ["softmax", "l2", "sigmoid", "multi-head"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kept", [True, False])
def test_blocks_at_awkward_sizes(name, causal, kept, monkeypatch):
    """101 tokens in blocks of 16 rows, with matrices kept and made anew, against JAX's own products."""
    monkeypatch.setattr(pairwise, "BLOCK", 16)
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 0)
    monkeypatch.setattr(pairwise, "STRIPS", 3)
    if not kept:
        monkeypatch.setattr("tokenfield.lipschitz.layer.STORED_ENTRIES", 0)
    state = tokens(n=101, unit=False, seed=3)
    rng = np.random.default_rng(4)
    places = rng.permutation(101) // 3 / 40
    state = tkf.Tokens(state.x, state.weights, places) if causal else state
    attention = KERNELS[name].fast(causal)
    D = attention_derivative(attention, jnp.zeros(()), state)
    part = D.parts[0] if name == "multi-head" else D
    assert (part.stored is not None) == kept
    assert len(part.strips) == (3 if causal else 1)
    e, u = jnp.asarray(rng.standard_normal((2, 101, 3)))
    f = jax.jit(gamma_of(attention, state))
    forward, back = jax.jvp(f, (state.x,), (e,))[1], jax.vjp(f, state.x)[1](u)[0]
    np.testing.assert_allclose(eqx.filter_jit(D.apply)(e), forward, rtol=0, atol=1e-13 * np.abs(forward).max())
    np.testing.assert_allclose(eqx.filter_jit(D.transpose)(u), back, rtol=0, atol=1e-13 * np.abs(back).max())


def test_no_square_array_for_many_tokens():
    """The largest array that a product holds for n = 16384 is a block of rows."""
    state = tkf.uniform_sphere(16384, 64)
    head = tkf.Softmax(beta=2.0)
    row = jnp.zeros(16384)
    strips = tuple(s.in_blocks(pairwise.BLOCK) for s in pairwise._strips(np.asarray(state.positions), causal=False))
    one = tkf.Softmax(beta=2.0).value
    D = pairwise.PairwiseDerivative(
        head, one, jnp.zeros(()), state.x, state.weights, state.positions, None, row, state.x, None, strips
    )
    for product in (D.apply, D.transpose):
        program = jax.make_jaxpr(product)(state.x)
        assert largest(program.jaxpr) <= pairwise.BLOCK * 16384
    assert pairwise.STORED_ENTRIES < 16384**2


def largest(jaxpr):
    """The most entries of any array in a program."""
    sizes = [np.prod(v.aval.shape) for equation in jaxpr.eqns for v in equation.outvars]
    inner = [p.jaxpr for equation in jaxpr.eqns for p in equation.params.values() if hasattr(p, "jaxpr")]
    return max([*sizes, *(largest(j) for j in inner)])


def test_the_published_configuration():
    """A = diag(-1, .5), R = 1.5: token 1 at -R e_1, the others at +R e_1 (FORMULAS §6)."""
    x = 1.5 * np.array([[-1.0, 0.0]] + 4 * [[1.0, 0.0]])
    matrix = np.diag([-1.0, 0.5])
    assert local(tkf.Softmax(A=matrix), x).constant == pytest.approx(2.34185, abs=5e-6)
    assert local(tkf.Softmax(A=matrix, causal=True), x).constant == pytest.approx(2.41953, abs=5e-6)
    found = tkf.lipschitz.bounds(matrix, None, 1.5, 5)
    assert (found.lower, found.upper) == (pytest.approx(1.91491, abs=5e-6), pytest.approx(18.274, abs=5e-4))


def test_repeated_and_vanishing_values():
    """A = 0, V = I: every output is the mean, so 1 is a singular value d times, and 0 all other times."""
    x = np.random.default_rng(0).standard_normal((6, 4))
    mean = tkf.Softmax(A=np.zeros((4, 4)))
    found = local(mean, x, top_k=6)
    np.testing.assert_allclose(found.values, [1, 1, 1, 1, 0, 0], atol=1e-14)
    assert found.converged
    assert (found.radius < 1e-13).all()
    assert local(mean, x, top_k=2).values == pytest.approx([1, 1], rel=1e-14)
    both = local(mean, x, top_k=24, residual=True)
    np.testing.assert_allclose(both.values, [2] * 4 + [1] * 20, rtol=1e-13)
    nothing = local(tkf.Softmax(beta=3.0, V=0.0), x, top_k=3)
    assert nothing.converged
    assert not nothing.values.any()
    assert not nothing.radius.any()
    assert not nothing.left.any()
    # One token attends to itself: f(x) = Vx.
    assert local(tkf.Softmax(A=A, V=V), [[1.0, 2.0, 3.0]], top_k=3).values == pytest.approx(
        np.linalg.svd(V, compute_uv=False), rel=1e-13
    )


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "sinkhorn"])
def test_a_double_weight_is_two_tokens_that_move_together(name):
    """The values of merged tokens are among those of the pair; the rest move the two against each other."""
    attention, state = KERNELS[name].fast(), tokens(n=4, unit=False)
    pair = tkf.Tokens(
        jnp.concatenate([state.x, state.x[:1]]), jnp.concatenate([state.weights.at[0].divide(2), state.weights[:1] / 2])
    )
    merged, apart = local(attention, state, top_k=12).values, local(attention, pair, top_k=15).values
    distance = np.abs(merged[:, None] - apart).min(1)
    assert distance.max() < 1e-9 * merged[0]
    if name == "softmax":
        # Two that move by ±e: the outputs move by ±V Cov A e.
        s = np.asarray(state.x @ A.T @ state.x.T)[0] + np.log(np.asarray(state.weights))
        p = np.exp(s - logsumexp(s))
        x = np.asarray(state.x) - p @ np.asarray(state.x)
        against = np.linalg.svd(V @ (x.T * p) @ x @ A, compute_uv=False)
        everything = np.sort(np.concatenate([merged, against]))[::-1]
        np.testing.assert_allclose(apart, everything, atol=1e-12 * merged[0])


def test_a_run_cut_short_says_so_and_keeps_its_intervals():
    state, attention = tkf.gaussian_tokens(30, 3, seed=1), tkf.Softmax(A=A, V=V)
    s = np.linalg.svd(dense(gamma_of(attention, state), state), compute_uv=False)
    found = local(attention, state, max_products=2)
    assert not found.converged
    assert "NOT converged" in repr(found)
    low, high = found.intervals[0]
    assert found.constant < s[0]
    assert ((s > low) & (s < high)).any()
    assert local(attention, state).constant == pytest.approx(s[0], rel=1e-13)


def test_large_scores_and_far_tokens():
    """beta = 1e4 on the sphere, and tokens far from 0, where products of large numbers cancel."""
    state = tkf.uniform_sphere(6, 3, seed=2)
    sharp = tkf.Softmax(beta=1e4)
    agree(local(sharp, state), dense(gamma_of(sharp, state), state), state, rtol=1e-9)
    far = tkf.Tokens(state.x + jnp.asarray([1e4, 0.0, 0.0]))
    l2 = tkf.L2(beta=1.0)
    assert local(l2, far).constant == pytest.approx(local(l2, state).constant, rel=1e-6)
    units = local(tkf.Unnormalized(beta=1e3), state)
    assert units.log_unit == 1e3
    assert np.isfinite(units.constant)


class Cosine(AbstractGeneralHead):
    """A kernel that is not one of ours: `k = cos <Ax, y>`."""

    score: Bilinear
    value: ValueMap
    causal: bool = eqx.field(static=True)
    normalized: ClassVar[bool] = False

    def average(self, t, x, mu, positions, values):
        q, k, _ = self.score.factors(t, x, mu.x)
        return (mu.weights * jnp.cos(q @ k.T)) @ values


def test_a_kernel_of_the_users_own():
    state, attention = tokens(unit=False), Cosine(Bilinear(A=A), ValueMap(V), False)
    agree(local(attention, state, top_k=2), dense(gamma_of(attention, state), state), state)
    both = tkf.MultiHead([attention, tkf.Softmax(beta=1.0)], [2.0, -1.0])
    agree(local(both, state, top_k=2), dense(gamma_of(both, state), state), state)


def test_same_bits():
    state, attention = tkf.gaussian_tokens(20, 3, seed=1), tkf.Softmax(A=A, V=V)
    first, second = (local(attention, state, top_k=2) for _ in range(2))
    assert (first.values == second.values).all()
    assert (first.right == second.right).all()


X = np.eye(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: local("softmax", X), "model must be an attention .* got 'softmax'"),
        (lambda: local(tkf.Softmax(), [[np.nan, 0.0]]), "x must be finite, got nan"),
        (lambda: local(tkf.Softmax(A=np.eye(2)), X), r"A must have shape \(3, 3\)"),
        (lambda: local(tkf.Softmax(), X, rtol=0.0), "rtol must be finite and > 0, got 0.0"),
        (lambda: local(tkf.Softmax(), X, top_k=10), "top_k must be at most n d = 9, .* got 10"),
        (lambda: local(tkf.Softmax(), X, top_k=0), "top_k must be a whole number >= 1, got 0"),
        (lambda: local(tkf.Softmax(), X, residual="yes"), "residual must be True, False or None, got 'yes'"),
        (lambda: local(tkf.Softmax(), tkf.Tokens(X, [0.5, 0.5, 0.0])), "weights must be > 0, got 0 for token 2"),
        (lambda: local(tkf.Hardmax(), np.ones((2, 2))), "token 0 attends equally to several tokens"),
        (
            lambda: local(tkf.Transformer(tkf.Softmax(), noise=tkf.EuclideanNoise(kappa=1.0)), X),
            "model must be without noise",
        ),
        (lambda: local(tkf.Sinkhorn(A=5 * A, max_iterations=1), tokens().x), "Sinkhorn did not reach tolerance"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_leaves_double_precision_says_so():
    with pytest.raises(ValueError, match=r"overflows at these tokens: .* a larger log_unit"):
        local(tkf.Unnormalized(beta=900.0), 2 * np.eye(3))
