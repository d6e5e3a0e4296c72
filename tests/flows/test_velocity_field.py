"""The velocity field at any point: the tokens' own velocity where they are, naive loops and closed forms elsewhere."""

import jax.numpy as jnp
import naive
import numpy as np
import pytest
from cases import B1, B2, FREE, KERNELS, NORMS, PARAMETERS, W1, W2, tokens, velocity

import tokenfield as tkf

CONTEXT = tkf.uniform_sphere(6, 3, seed=2)
MLP = tkf.MLP(W1, W2, B1, B2)
T = 1.9  # after Mix-LN has changed its rule
MODELS = {
    **{name: tkf.Transformer(KERNELS[name].fast(), norm=tkf.PostLN()) for name in KERNELS},
    **{name: tkf.Transformer(tkf.Softmax(beta=2.0), norm=norm) for name, norm in NORMS.items()},
    "mlp": tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PreLN(), mlp=MLP),
    "gain": tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PreLN(gain=0.7)),
    "real": tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PreNorm(tkf.LayerNorm()), mlp=MLP),
    "context": tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PostLN(), context=CONTEXT),
    "decoder": tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PreLN(), MLP, cross=tkf.Softmax(beta=1.0), context=CONTEXT),
    "time": tkf.Transformer(tkf.Softmax(A=lambda t: jnp.cos(t) * jnp.eye(3), V=lambda t: t * jnp.eye(3)), tkf.PostLN()),
    "units": tkf.Transformer(tkf.Unnormalized(beta=2.0, log_unit=1.0), norm=tkf.PostLN()),
}


@pytest.mark.parametrize("name", MODELS)
def test_at_the_tokens_it_is_their_velocity(name):
    model = MODELS[name]
    state = tokens(unit=name not in ("none", "pre", "peri", "mlp", "gain", "real", "decoder"))
    expected = velocity(model, state, T)
    if name == "mix":  # after tau lengths evolve, and tokens may have any
        state = tokens(unit=False)
        expected = velocity(tkf.Transformer(tkf.Softmax(beta=2.0), tkf.PreLN()), state)
    found = tkf.velocity_field(model, state, state.x, T)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("norm", NORMS)
def test_elsewhere_it_is_what_the_norm_makes_of_attention(norm):
    """Naive loops over the tokens and one more of weight 0."""
    state, point = tokens(unit=norm not in FREE), np.array([[0.6, 0.0, 0.8]]) * (1.7 if norm in FREE else 1)
    x, w = np.concatenate([state.x, point]), np.append(state.weights, 0.0)
    options = PARAMETERS.get(norm, {})
    attention = KERNELS["softmax"]
    expected = naive.velocity(norm, 0.6, x, [attention.naive(naive.reads(norm, 0.6, x, **options), w)], **options)[-1:]
    found = tkf.velocity_field(tkf.Transformer(attention.fast(), norm=NORMS[norm]), state, point, 0.6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_points_come_after_all_tokens():
    """A causal mask hides nothing from them, and ALiBi takes their distance from the last position."""
    state = tkf.Tokens(tokens().x, positions=[3.0, 1.0, 2.0, 7.0, 5.0, 6.0, 4.0])
    head = tkf.Softmax(beta=2.0, causal=True, positions=tkf.ALiBi(0.3))
    found = tkf.velocity_field(tkf.Transformer(head), state, state.x[:2])
    x = np.asarray(state.x)
    P = np.exp(2 * x[:2] @ x.T - 0.3 * (7 - np.asarray(state.positions)))
    np.testing.assert_allclose(found, P / P.sum(1, keepdims=True) @ x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("context", [False, True])
def test_points_of_hyperbolic_space_attend_to_the_tokens(context):
    """Scores are inner products of the space. A decoder's points attend to the tokens and to the context."""
    space, d = tkf.Hyperbolic(), 3
    state, point, nu = (tkf.tokens_in(space, n, d, seed=n) for n in (5, 2, 4))
    signs = space.signs(d)
    attention = {"cross": tkf.Softmax(beta=0.5), "context": nu} if context else {}
    model = tkf.Transformer(tkf.Softmax(beta=1.5), space=space, **attention)

    def mean(x, y, beta):
        P = np.exp(beta * (signs * x) @ np.asarray(y).T)
        return P / P.sum(1, keepdims=True) @ np.asarray(y)

    for x in (state.x, point.x):
        x = np.asarray(x)
        A = mean(x, state.x, 1.5) + (mean(x, nu.x, 0.5) if context else 0)
        expected = A + (signs * A * x).sum(1, keepdims=True) * x
        np.testing.assert_allclose(tkf.velocity_field(model, state, x), expected, rtol=0, atol=1e-13)
    own = velocity(model, state)
    np.testing.assert_allclose(tkf.velocity_field(model, state, state.x), own, rtol=0, atol=1e-13)


def test_noise_and_weights_that_move_do_not_change_it():
    state, points = tokens(), tokens(n=4, seed=5).x
    plain = tkf.velocity_field(tkf.Transformer(tkf.Unnormalized(2.0), tkf.PostLN()), state, points)
    for more in ({"noise": tkf.SphereNoise(kappa=4.0)}, {"fisher_rao": 1.0}):
        model = tkf.Transformer(tkf.Unnormalized(2.0), tkf.PostLN(), **more)
        np.testing.assert_array_equal(tkf.velocity_field(model, state, points), plain)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.velocity_field(MODELS["none"], tokens(), np.eye(2)), r"points must have shape \(m, 3\)"),
        (lambda: tkf.velocity_field(MODELS["post"], tokens(), 2 * np.eye(3)), "PostLN"),
        (lambda: tkf.velocity_field(MODELS["none"], tokens(), np.eye(3), np.nan), "t must be a finite number"),
        (lambda: tkf.velocity_field(tkf.Softmax(), tokens(), np.eye(3)), "model must be a Transformer, got Softmax"),
        (
            lambda: tkf.velocity_field(tkf.Transformer(tkf.Softmax(), tkf.Rescaled()), tokens(), np.eye(3)),
            "Rescaled.* has no velocity field of x",
        ),
        (
            lambda: tkf.velocity_field(tkf.by_layer([MODELS["none"]] * 2), tokens(), np.eye(3)),
            "model has weights by layer",
        ),
        (
            lambda: tkf.velocity_field(
                tkf.Transformer(tkf.Softmax(), context=CONTEXT, encoder=MODELS["none"]), tokens(), np.eye(3)
            ),
            "model has a context that moves",
        ),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
