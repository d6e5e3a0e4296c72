"""Cross-attention: queries from the tokens, keys and values from a context, which may move too (FORMULAS §13)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import tokenfield as tkf
from tokenfield.flows import segments

RNG = np.random.default_rng(5)
A, V = RNG.standard_normal((2, 3, 3)) / 2
TOKENS = tkf.uniform_sphere(9, 3, seed=1)
CONTEXT = tkf.Tokens(tkf.uniform_sphere(6, 3, seed=2).x, RNG.dirichlet(np.ones(6)))
KERNELS = {
    "softmax": tkf.Softmax(A=A, V=V),
    "isotropic": tkf.Softmax(beta=3.0),
    "l2": tkf.L2(beta=2.0),
    "unnormalized": tkf.Unnormalized(A=A),
    "linear": tkf.Linear(A=A),
    "relu": tkf.ReLU(A=A),
    "sigmoid": tkf.Sigmoid(A=A),
    "squared relu": tkf.ReLU(A=A, power=2, normalized=True),
    "normalized sigmoid": tkf.Sigmoid(beta=3.0, normalized=True),
    "hardmax": tkf.Hardmax(A=A),
    "sinkhorn": tkf.Sinkhorn(A=A, tolerance=1e-13),
    "heads": tkf.MultiHead([tkf.Softmax(A=A), tkf.Sigmoid(beta=2.0)], [0.5, V]),
}
NORMS = {"none": tkf.NoNorm(), "post": tkf.PostLN(), "pre": tkf.PreLN(), "peri": tkf.PeriLN(), "ngpt": tkf.NGPT(0.5)}


def velocity(model, state):
    flow = segments(state, model)[0].flow
    y = flow.pack(state)
    return np.asarray(jax.jvp(lambda y: flow.unpack(y).x, (y,), (flow.velocity(jnp.zeros(()), y),))[1])


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_context_that_is_the_own_measure_is_self_attention(kernel):
    for norm in NORMS.values():
        alone = velocity(tkf.Transformer(KERNELS[kernel], norm=norm), TOKENS)
        cross = velocity(tkf.Transformer(KERNELS[kernel], norm=norm, context=TOKENS), TOKENS)
        np.testing.assert_allclose(cross, alone, rtol=0, atol=1e-14 * max(1, np.abs(alone).max()))


@pytest.mark.parametrize(
    ("kernel", "phi"),
    [
        (tkf.Softmax, np.exp),
        (partial(tkf.ReLU, power=2, normalized=True), lambda s: max(s, 0.0) ** 2),
        (partial(tkf.Sigmoid, normalized=True), lambda s: 1 / (1 + np.exp(-s))),
    ],
    ids=["softmax", "squared relu", "sigmoid"],
)
def test_naive_loop(kernel, phi):
    found = velocity(tkf.Transformer(kernel(A=A, V=V), context=CONTEXT), TOKENS)
    for i, x in enumerate(np.asarray(TOKENS.x)):
        c = [w * phi((A @ x) @ y) for w, y in zip(np.asarray(CONTEXT.weights), np.asarray(CONTEXT.x), strict=True)]
        expected = V @ sum(c_j * y for c_j, y in zip(c, np.asarray(CONTEXT.x), strict=True)) / (sum(c) or 1.0)
        np.testing.assert_allclose(found[i], expected, rtol=0, atol=1e-14)


def test_linear_attention_to_a_fixed_context_is_a_linear_equation():
    """`x' = V M A x`, M the second moment of the context: `x(t) = e^{t V M A} x(0)`."""
    M = np.einsum("j,jk,jl->kl", CONTEXT.weights, CONTEXT.x, CONTEXT.x)
    model = tkf.Transformer(tkf.Linear(A=A, V=V), context=CONTEXT)
    run = tkf.simulate(model, TOKENS, 3.0, save_at=[3.0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(run.final.x, np.asarray(TOKENS.x) @ expm(3 * V @ M @ A).T, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_decoder_layer():
    """Causal self-attention, then cross-attention, then the MLP, each with its norm: NumPy beside it."""
    W1, W2 = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 5))
    parts = {"mlp": tkf.MLP(W1, W2), "cross": tkf.Softmax(A=A, V=V), "context": CONTEXT}
    model = tkf.Transformer(tkf.Softmax(beta=2.0, causal=True), norm=tkf.PostLN(), **parts)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731
    rows = lambda s: np.exp(s) / np.exp(s).sum(1, keepdims=True)  # noqa: E731
    x, y, w = (np.asarray(a) for a in (TOKENS.x, CONTEXT.x, CONTEXT.weights))
    for _ in range(2):
        x = unit(x + rows(np.where(np.tri(9) > 0, 2 * x @ x.T, -np.inf)) @ x)
        x = unit(x + rows(x @ A.T @ y.T + np.log(w)) @ y @ V.T)
        x = unit(x + np.tanh(x @ W1.T) @ W2.T)
    np.testing.assert_allclose(tkf.layers(model, TOKENS, depth=2).final.x, x, rtol=0, atol=1e-13)
    both = tkf.solve(model, TOKENS, 2.0, method=tkf.Layers()).final.x
    np.testing.assert_allclose(both, x, rtol=0, atol=1e-13)
    move = lambda x: tkf.solve(model, tkf.Tokens(x), 1.0, method=tkf.Layers()).final.x  # noqa: E731
    dense = jax.jacobian(move)(TOKENS.x).reshape(27, 27)
    assert tkf.lipschitz.local(model, TOKENS, rtol=1e-10).constant == pytest.approx(np.linalg.norm(dense, 2), rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["none", "post", "pre"])
def test_encoder_and_decoder_run_together(norm):
    """A decoder that starts where its context does, and has its model, stays with it: both are self-attention."""
    attention, rule = tkf.Softmax(A=A, V=V), NORMS[norm]
    encoder = tkf.Transformer(attention, norm=rule)
    decoder = tkf.Transformer(attention, norm=rule, context=TOKENS, encoder=encoder)
    tight = {"rtol": 1e-10, "atol": 1e-12}
    together = tkf.simulate(decoder, TOKENS, 2.0, save_at=3, **tight)
    alone = tkf.simulate(encoder, TOKENS, 2.0, save_at=3, **tight)
    for a, b in zip(together.states, alone.states, strict=True):
        np.testing.assert_allclose(a.x, b.x, rtol=0, atol=1e-8)
    still = tkf.simulate(tkf.Transformer(attention, norm=rule, context=TOKENS), TOKENS, 2.0, save_at=3)
    assert np.abs(still.final.x - alone.final.x).max() > 1e-2
    deep = [tkf.layers(model, TOKENS, depth=3, step=0.5).final.x for model in (decoder, encoder)]
    np.testing.assert_allclose(*deep, rtol=0, atol=1e-13)


def test_a_context_that_moves_is_read_through_its_norm():
    """Tokens read what the encoder's attention reads: its pre-norm of the context, that of the same layer."""
    gains = RNG.uniform(0.5, 2.0, (2, 3))
    encoder = tkf.by_layer([tkf.Transformer(tkf.Softmax(A=A), tkf.PreNorm(tkf.RMSNorm(g, eps=0.1))) for g in gains])
    model = tkf.Transformer(tkf.Softmax(A=V), context=CONTEXT, encoder=encoder)
    w = np.asarray(CONTEXT.weights)

    def mean(x, y, M):
        P = w * np.exp(x @ M.T @ y.T)
        return P / P.sum(1, keepdims=True) @ y

    x, y = np.asarray(TOKENS.x), np.asarray(CONTEXT.x)
    parts = segments(TOKENS, model)
    for gain, part in zip(gains, parts, strict=True):
        read = gain * y / np.sqrt((y * y).mean(1, keepdims=True) + 0.1)
        velocity = part.flow.velocity(jnp.zeros(()), part.flow.pack(TOKENS)._replace(tokens=x, context=y))
        np.testing.assert_allclose(velocity.tokens, mean(x, read, V), rtol=0, atol=1e-14)
        x, y = x + 0.5 * mean(x, read, V), y + 0.5 * mean(read, read, A)
    found = tkf.layers(model, TOKENS, depth=2, step=0.5).final
    np.testing.assert_allclose(found.x, x, rtol=0, atol=1e-14)


def test_other_tokens_than_the_contexts():
    """The decoder's path beside SciPy, with the encoder's moving beside it."""
    from scipy.integrate import solve_ivp

    x0, y0, w = (np.asarray(a) for a in (TOKENS.x, CONTEXT.x, CONTEXT.weights))

    def field(t, z):
        x, y = z[:27].reshape(9, 3), z[27:].reshape(6, 3)
        gamma = []
        for points, M in ((x, A), (y, V)):
            P = w * np.exp(points @ M.T @ y.T)
            gamma.append(P / P.sum(1, keepdims=True) @ y)
        return np.concatenate([g.ravel() for g in gamma])

    expected = solve_ivp(field, (0, 1.5), np.concatenate([x0.ravel(), y0.ravel()]), rtol=1e-11, atol=1e-13).y[:27, -1]
    encoder = tkf.Transformer(tkf.Softmax(A=V))
    model = tkf.Transformer(tkf.Softmax(A=A), context=CONTEXT, encoder=encoder)
    found = tkf.simulate(model, TOKENS, 1.5, save_at=[1.5], rtol=1e-10, atol=1e-12).final.x
    np.testing.assert_allclose(found.ravel(), expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_gradient_by_the_context():
    def value(y):
        model = tkf.Transformer(tkf.Softmax(A=A), norm=tkf.PostLN(), context=tkf.Tokens(y, CONTEXT.weights))
        return jnp.sum(tkf.solve(model, TOKENS, 0.7, rtol=1e-9, atol=1e-11).final.x[:, 0])

    e, h = RNG.standard_normal((6, 3)), 1e-5
    slope = np.vdot(np.asarray(jax.grad(value)(CONTEXT.x)), e)
    assert slope == pytest.approx(float(value(CONTEXT.x + h * e) - value(CONTEXT.x - h * e)) / (2 * h), rel=1e-6)


def test_a_run_that_is_cut_resumes_to_the_same_bits(tmp_path, monkeypatch):
    encoder = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
    model = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN(), context=CONTEXT, encoder=encoder)
    whole = tkf.simulate(model, TOKENS, 5.0, save_at=4)
    path = tmp_path / "run"
    kept = tkf.simulate(model, TOKENS, 5.0, save_at=4, checkpoint=path, checkpoint_every=1e-9)
    np.testing.assert_array_equal(kept.final.x, whole.final.x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.Transformer(tkf.Softmax(), context=np.eye(3)), "context must be a measure such as Tokens"),
        (lambda: tkf.Transformer(tkf.Softmax(), cross=tkf.Softmax()), "cross needs a context"),
        (lambda: tkf.Transformer(tkf.Softmax(), encoder=tkf.Transformer(tkf.Softmax())), "encoder needs a context"),
        (lambda: tkf.Transformer(tkf.Softmax(), context=CONTEXT, encoder=3), "encoder must be a Transformer"),
        (
            lambda: tkf.simulate(tkf.Transformer(tkf.Softmax(), context=CONTEXT), tkf.Tokens(np.eye(2)), 1.0),
            r"context must hold tokens in R\^2, like the state, got R\^3",
        ),
        (
            lambda: tkf.simulate(tkf.Transformer(tkf.Softmax(), context=CONTEXT), tkf.Gaussian(None, np.eye(3)), 1.0),
            "attention to a context moves points only. States that do have one: Tokens",
        ),
        (
            lambda: tkf.simulate(tkf.Transformer(tkf.Softmax(), tkf.Rescaled(), context=CONTEXT), TOKENS, 1.0),
            "use norm=NoNorm",
        ),
        (lambda: tkf.energy(TOKENS, tkf.Transformer(tkf.Softmax(), context=CONTEXT)), "MLP or a context has no"),
        (lambda: tkf.attention_matrix(TOKENS, tkf.Transformer(tkf.Softmax(), context=CONTEXT)), "attend to a context"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
