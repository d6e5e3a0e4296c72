"""Whole stacks of layers, against closed forms and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import A, V, tokens

import tokenfield as tkf
from tokenfield.lipschitz import local, network


def test_layers_that_only_average():
    """A = 0, no norm: `(I + hV)^L` on the mean of the tokens, the identity on their differences."""
    model, x = tkf.Transformer(tkf.Softmax(A=np.zeros((3, 3)), V=V)), tokens(n=4, unit=False).x
    h, depth = 0.3, 7
    s = np.linalg.svd(np.linalg.matrix_power(np.eye(3) + h * V, depth), compute_uv=False)
    expected = np.sort(np.concatenate([s, np.ones(9)]))[::-1]
    found = network(model, x, depth, h, top_k=12)
    np.testing.assert_allclose(found.whole.values, expected, rtol=1e-11)
    first = max(1.0, np.linalg.norm(np.eye(3) + h * V, 2))
    np.testing.assert_allclose(found.layers, first, rtol=1e-12)
    assert found.constant <= found.product
    assert found.converged


@pytest.mark.slow
def test_different_layers_with_norms_and_an_mlp():
    rng = np.random.default_rng(0)
    mlp = tkf.MLP(W1=rng.standard_normal((4, 3)), W2=0.3 * rng.standard_normal((3, 4)), activation="gelu")
    models = [
        tkf.Transformer(tkf.Softmax(A=A, V=V), norm=tkf.PreLN(), mlp=mlp),
        tkf.Transformer(tkf.Sigmoid(beta=2.0, causal=True), norm=tkf.PreLN()),
        tkf.Transformer(tkf.Softmax(A=lambda t: A * jnp.cos(t)), norm=tkf.PeriLN()),
    ]
    state, h = tokens(n=4, unit=False), 0.7

    def stack(x):
        for index, model in enumerate(models):
            t = jnp.asarray(index * h)
            for sublayer in model.sublayers(t, state.weights, state.positions):
                x = model.norm.layer(t, x, sublayer, h)
        return x

    root = np.sqrt(4 * np.asarray(state.weights))
    J = np.asarray(jax.jacfwd(stack)(state.x)) * root[:, None, None, None] / root[:, None]
    s = np.linalg.svd(J.reshape(12, 12), compute_uv=False)
    found = network(models, state, step=h, top_k=3)
    np.testing.assert_allclose(found.whole.values, s[:3], rtol=1e-11)
    np.testing.assert_allclose(stack(state.x), tkf.layers(models, state, step=h).final.x, rtol=1e-12)
    assert found.constant <= found.product
    at = tkf.Tokens(tkf.layers(models[:2], state, step=h).final.x, state.weights)
    assert found.layers[2] == pytest.approx(local(models[2], at, step=h, t=2 * h).constant, rel=1e-12)


def test_one_layer_is_local():
    model, state = tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN()), tokens(n=5)
    found = network(model, state, 1)
    assert found.constant == pytest.approx(local(model, state).constant, rel=1e-13)
    assert found.product == pytest.approx(found.constant, rel=1e-13)


def test_errors_say_what_is_allowed():
    model = tkf.Transformer(tkf.Softmax(), norm=tkf.PostLN())
    with pytest.raises(ValueError, match="depth must be given"):
        network(model, np.eye(3))
    with pytest.raises(ValueError, match="token 0 has length 2"):
        network(model, 2 * np.eye(3), 2)
    with pytest.raises(ValueError, match="step must be finite and > 0, got -1"):
        network(model, np.eye(3), 2, step=-1)
