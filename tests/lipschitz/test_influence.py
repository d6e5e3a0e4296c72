"""The influence of each token on one token, against the theory of positions and against a dense Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.flows.layers import one_layer
from tokenfield.lipschitz import influence
from tokenfield.theory import token_influence


@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_scores_of_positions_alone(slope):
    """Without a norm and with beta = 0, layers are `(1+h)^L` times powers of `(1-alpha) I + alpha P`, alpha = h/(1+h)."""
    n, h, depths = 24, 3 / 7, (1, 12)
    head = tkf.Softmax(beta=0.0, causal=True, positions=tkf.ALiBi(slope))
    model, s = tkf.Transformer(head), np.arange(1, n + 1) / n
    tokens = tkf.Tokens(np.random.default_rng(0).standard_normal((n, 2)), positions=s)
    found = influence(model, tokens, depths, h)
    for L, row in zip(depths, found, strict=True):
        np.testing.assert_allclose(row, (1 + h) ** L * token_influence(n, L, 0.3, slope=slope), rtol=1e-12)
    after = np.asarray(tkf.layers(model, tokens, 12, h).final.x[-1])
    np.testing.assert_allclose(
        after, (1 + h) ** 12 * token_influence(n, 12, 0.3, slope=slope) @ tokens.x, rtol=1e-12, atol=1e-13
    )


def test_one_cluster():
    """At one cluster, under Post-LN, every beta gives the same powers on the tangent space, d - 1 of d directions."""
    n, d, h, L = 16, 3, 0.5, 4
    model = tkf.Transformer(tkf.Softmax(beta=3.0, causal=True), norm=tkf.PostLN())
    found = influence(model, np.tile([0.0, 0.6, 0.8], (n, 1)), L, h)
    np.testing.assert_allclose(found, token_influence(n, L, h / (1 + h)) * np.sqrt((d - 1) / d), rtol=1e-12)


def test_dense_jacobian():
    """Norm, MLP, real scores, a token in the middle; few directions estimate the norm."""
    rng = np.random.default_rng(1)
    mlp = tkf.MLP(W1=rng.standard_normal((4, 3)), W2=rng.standard_normal((3, 4)), activation="gelu")
    model = tkf.Transformer(tkf.Softmax(A=rng.standard_normal((3, 3)), causal=True), norm=tkf.PreLN(), mlp=mlp)
    x, h = rng.standard_normal((5, 3)), 0.7

    state = tkf.Tokens(x)

    def move(x):
        for index in range(3):
            x, _ = one_layer(model, jnp.asarray(index * h), x, state.weights, state.positions, jnp.asarray(h))
        return x[2]

    exact = np.sqrt((np.asarray(jax.jacfwd(move)(state.x)) ** 2).sum((0, 2)) / 3)
    np.testing.assert_allclose(influence(model, x, 3, h, token=2), exact, rtol=1e-10, atol=1e-15)
    assert (exact[3:] == 0).all()
    assert (exact[:3] > 0).all()
    some = [influence(model, x, 3, h, token=2, directions=1, seed=seed) ** 2 for seed in range(60)]
    np.testing.assert_allclose(np.mean(some, 0)[:3], exact[:3] ** 2, rtol=0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth": []}, "depth must be a number of layers"),
        ({"depth": 0}, "depth must be a whole number >= 1"),
        ({"token": 4}, "token must be the index of one of 4 tokens, got 4"),
        ({"directions": 3}, "directions must be at most 2"),
        ({"model": tkf.Softmax(1.0)}, "model must be a Transformer"),
        ({"model": tkf.Transformer(tkf.Softmax(1.0), noise=tkf.EuclideanNoise(1.0))}, "layers has no noise"),
    ],
)
def test_bad_input(options, words):
    given = {"model": tkf.Transformer(tkf.Softmax(1.0)), "x": np.eye(4, 2), "depth": 2}
    with pytest.raises(ValueError, match=words):
        influence(**(given | options))
