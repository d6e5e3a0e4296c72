"""Real blocks: torch's layers rebuilt, weights by layer, and surgery on them."""

import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

D, H, M, N = 12, 3, 20, 7
X = np.random.default_rng(0).standard_normal((N, D))
Y = np.random.default_rng(1).standard_normal((5, D))


def array(tensor):
    return tensor.detach().numpy()


def random(module):
    """A module in double precision, all of whose numbers are random."""
    torch.manual_seed(0)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def rebuilt(attention, causal=False):
    """`torch.nn.MultiheadAttention` as a `MultiHead`."""
    Q, K, V = array(attention.in_proj_weight).reshape(3, H, D // H, D)
    q, k, v = array(attention.in_proj_bias).reshape(3, H, D // H)
    O = array(attention.out_proj.weight).reshape(D, H, D // H).transpose(1, 0, 2)  # noqa: E741
    beta = (D // H) ** -0.5
    heads = [tkf.Softmax(beta, Q=Q[h], K=K[h], V=V[h], q=q[h], k=k[h], causal=causal) for h in range(H)]
    return tkf.MultiHead(heads, list(O), array(attention.out_proj.bias), v)


def norm_of(module):
    return tkf.LayerNorm(array(module.weight), array(module.bias), module.eps)


def mlp_of(layer, activation):
    linear = layer.linear1, layer.linear2
    (W1, b1), (W2, b2) = ((array(part.weight), array(part.bias)) for part in linear)
    return tkf.MLP(W1, W2, b1, b2, activation)


def mask(n):
    return torch.nn.Transformer.generate_square_subsequent_mask(n, dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
def test_multihead_attention(causal):
    """Self-attention, and attention to other tokens."""
    torch_attention = random(torch.nn.MultiheadAttention(D, H, batch_first=True))
    x, y = torch.as_tensor(X)[None], torch.as_tensor(Y)[None]
    expected = array(torch_attention(x, x, x, attn_mask=mask(N) if causal else None)[0])[0]
    attention, tokens = rebuilt(torch_attention, causal), tkf.Tokens(X)
    np.testing.assert_allclose(attention.of_itself(jnp.zeros(()), tokens), expected, rtol=0, atol=1e-12)
    crossed = array(torch_attention(x, y, y)[0])[0]
    found = rebuilt(torch_attention)(jnp.zeros(()), tokens.x, tkf.Tokens(Y))
    np.testing.assert_allclose(found, crossed, rtol=0, atol=1e-12)


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_encoder_layer(first, causal, activation):
    options = {"activation": activation, "norm_first": first, "batch_first": True, "dropout": 0.0}
    layer = random(torch.nn.TransformerEncoderLayer(D, H, M, **options))
    rule = tkf.PreNorm if first else tkf.PostNorm
    model = tkf.Transformer(
        rebuilt(layer.self_attn, causal),
        norm=rule(norm_of(layer.norm1)),
        mlp=mlp_of(layer, activation),
        mlp_norm=rule(norm_of(layer.norm2)),
    )
    x = torch.as_tensor(X)[None]
    for _ in range(2):
        x = layer(x, src_mask=mask(N) if causal else None)
    np.testing.assert_allclose(tkf.layers(model, tkf.Tokens(X), depth=2).final.x, array(x)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("first", [False, True])
def test_decoder_layer(first):
    options = {"activation": "gelu", "norm_first": first, "batch_first": True, "dropout": 0.0}
    layer = random(torch.nn.TransformerDecoderLayer(D, H, M, **options))
    rule = tkf.PreNorm if first else tkf.PostNorm
    model = tkf.Transformer(
        rebuilt(layer.self_attn, causal=True),
        norm=rule(norm_of(layer.norm1)),
        cross=rebuilt(layer.multihead_attn),
        context=tkf.Tokens(Y),
        cross_norm=rule(norm_of(layer.norm2)),
        mlp=mlp_of(layer, "gelu"),
        mlp_norm=rule(norm_of(layer.norm3)),
    )
    expected = array(layer(torch.as_tensor(X)[None], torch.as_tensor(Y)[None], tgt_mask=mask(N)))[0]
    np.testing.assert_allclose(tkf.layers(model, tkf.Tokens(X), depth=1).final.x, expected, rtol=0, atol=1e-12)


def one_layer(seed):
    rng = np.random.default_rng(seed)
    Q, K, V = rng.standard_normal((3, 2, 3, 4)) / 2
    heads = [tkf.Softmax(0.5 + 0.1 * seed, Q=Q[h], K=K[h], V=V[h], positions=tkf.ALiBi(0.3 * seed)) for h in range(2)]
    O, b, v = rng.standard_normal((2, 4, 3)), rng.standard_normal(4), rng.standard_normal((2, 3))  # noqa: E741
    W1, W2, gate = rng.standard_normal((6, 4)), rng.standard_normal((4, 6)), rng.standard_normal((6, 4))
    first, second = (tkf.PreNorm(tkf.RMSNorm(rng.standard_normal(4))) for _ in range(2))
    mlp = tkf.MLP(W1, W2, gate=gate, activation="silu")
    return tkf.Transformer(tkf.MultiHead(heads, list(O), b, v), norm=first, mlp=mlp, mlp_norm=second)


LAYERS = [one_layer(seed) for seed in range(3)]
START = tkf.gaussian_tokens(5, 4, seed=0)
FINAL = tkf.LayerNorm(gain=[1.0, 2.0, 0.5, 1.0], bias=0.3)


def ends(model, depth=None):
    return np.asarray(tkf.layers(model, START, depth=depth).final.x)


def test_weights_by_layer():
    """Those of a list of models, run by one program; `final` acts after the last layer only."""
    model = tkf.by_layer(LAYERS, FINAL)
    run, plain = tkf.layers(model, START), tkf.layers(LAYERS, START)
    for a, b in zip(run.states[:-1], plain.states[:-1], strict=True):
        np.testing.assert_allclose(a.x, b.x, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(run.final.x, FINAL(plain.final.x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ends(model, 2), ends(LAYERS[:2]), rtol=1e-13, atol=1e-13)


def test_loops():
    twice = tkf.by_layer(LAYERS, FINAL).repeated(2)
    np.testing.assert_allclose(ends(twice), FINAL(ends([*LAYERS, *LAYERS])), rtol=0, atol=1e-11)


def test_the_flow_of_a_loop():
    """Layers 0, 1, 2, 0 act one after another."""
    model = tkf.by_layer(LAYERS).repeated(2)
    whole = tkf.simulate(model, START, 4.0, save_at=[3.0, 4.0], rtol=1e-10, atol=1e-12)
    again = tkf.simulate(LAYERS[0], whole.state(0), 1.0, save_at=[1.0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(whole.final.x, again.final.x, rtol=1e-8, atol=1e-8)


def test_decoders_by_layer():
    """With one context for all of them."""
    nu = tkf.gaussian_tokens(6, 4, seed=3)
    attentions = [tkf.Softmax(beta) for beta in (0.5, 1.0)]
    decoders = [tkf.Transformer(a, norm=tkf.PreLN(), cross=tkf.Softmax(2.0), context=nu) for a in attentions]
    np.testing.assert_allclose(ends(tkf.by_layer(decoders)), ends(decoders), rtol=0, atol=1e-13)
    other = tkf.Transformer(attentions[0], norm=tkf.PreLN(), cross=tkf.Softmax(2.0), context=START)
    with pytest.raises(ValueError, match="same context"):
        tkf.by_layer([decoders[0], other])


@pytest.mark.slow
def test_surgery():
    """On weights by layer as on each layer by itself."""
    model = tkf.by_layer(LAYERS)
    changes = {
        "mlp": lambda m: m.without_mlp(),
        "norm": lambda m: m.with_norm(tkf.PreLN(gain=2.0)),
        "scale": lambda m: m.with_scale(1.3 * np.log(5)),
        "positions": lambda m: m.with_positions(None),
        "heads": lambda m: m.without_heads([0]),
    }
    original = ends(model)
    for name, change in changes.items():
        found, each = ends(change(model)), ends([change(layer) for layer in LAYERS])
        np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-12, err_msg=name)
        assert np.abs(found - original).max() > 1e-3, name


def test_what_surgery_leaves():
    """The layer without its MLP, one head and positions, by NumPy."""
    layer = LAYERS[1]
    head, W, v = (
        layer.attention.parts[1],
        np.asarray(layer.attention.outputs[1].V),
        np.asarray(layer.attention.offsets[1]),
    )
    x = np.asarray(START.x)
    read = np.asarray(layer.norm.map.gain) * x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    Q, K, V = (np.asarray(a) for a in (head.score.Q, head.score.K, head.value.V))
    P = np.exp(2.0 * (read @ Q.T) @ (read @ K.T).T)
    expected = x + (P / P.sum(1, keepdims=True) @ read @ V.T + v) @ W.T + np.asarray(layer.attention.bias)
    cut = layer.without_mlp().without_heads([0]).with_positions(None).with_scale(2.0)
    np.testing.assert_allclose(ends(cut, 1), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_flow_of_real_layers():
    """Small layers tend to it: the error halves with the step."""
    model = tkf.by_layer(LAYERS, FINAL).continuous()
    exact = np.asarray(tkf.simulate(model, START, 3.0, save_at=[3.0], rtol=1e-9, atol=1e-11).final.x)
    errors = []
    for steps in (40, 80):
        finer = tkf.by_layer([layer for layer in LAYERS for _ in range(steps)])
        errors.append(np.abs(np.asarray(tkf.layers(finer, START, step=1 / steps).final.x) - exact).max())
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.1)


def test_the_flow_of_the_first_layers():
    """The last of them acts forever."""
    model = tkf.by_layer(LAYERS, FINAL)
    found, expected = model.repeated(2).continuous(depth=2), tkf.by_layer(LAYERS[:2]).continuous()
    assert found.length == 2
    runs = [tkf.simulate(each, START, 3.0, save_at=[3.0]).final.x for each in (found, expected)]
    np.testing.assert_array_equal(*runs)
    assert LAYERS[0].continuous(depth=5).length is None  # all layers are the same
    with pytest.raises(ValueError, match=f"depth must be at most {len(LAYERS)}"):
        model.continuous(len(LAYERS) + 1)
    for each in (model, LAYERS[0]):
        with pytest.raises(ValueError, match="depth must be a whole number >= 1, got 0"):
            each.continuous(0)


BIASED = tkf.Softmax(Q=np.eye(4), K=np.eye(4), q=np.ones(4))
RESCALED = tkf.Transformer(tkf.MultiHead([tkf.Softmax()], bias=np.ones(4)), tkf.Rescaled())
PRE = tkf.Transformer(tkf.Softmax(), tkf.PreNorm(tkf.RMSNorm(np.ones(3))))
POST = tkf.Transformer(tkf.Softmax(), tkf.PostNorm(tkf.RMSNorm()))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.by_layer([]), "models must be a non-empty list"),
        (lambda: tkf.by_layer([LAYERS[0], LAYERS[0].without_mlp()]), "of one kind and of equal shapes"),
        (lambda: LAYERS[0].without_heads([2]), "heads must be some of 0 to 1"),
        (lambda: LAYERS[0].without_heads([0, 1]), "not all of them"),
        (lambda: LAYERS[0].with_norm(3), "norm must be a normalization rule"),
        (lambda: tkf.Transformer(tkf.Softmax()).without_heads([0]), "not a MultiHead"),
        (lambda: tkf.Transformer(tkf.Softmax(A=np.eye(2))).with_scale(1.0), "no scale beta"),
        (lambda: tkf.Transformer(tkf.Softmax(), mlp_norm=3), "mlp_norm must be"),
        (lambda: tkf.MLP(np.ones((3, 2)), np.ones((2, 3)), gate=np.ones((2, 2))), "gate must have the shape of W1"),
        (lambda: tkf.layers(PRE, START, 1), "gain must have length 4"),
        (lambda: tkf.simulate(POST, START, 1.0), "PostNorm has layers, but no flow"),
        (lambda: tkf.simulate(RESCALED, START, 1.0), "attention without biases"),
        (lambda: tkf.simulate(tkf.Transformer(BIASED, tkf.Rescaled()), START, 1.0), "queries and keys without biases"),
        (lambda: tkf.simulate(tkf.Transformer(BIASED), tkf.Gaussian(None, np.eye(4)), 1.0), "biases of queries and keys"),
        (lambda: tkf.layers(tkf.by_layer(LAYERS, FINAL), START, 4), "depth must be at most 3"),
        (lambda: tkf.simulate(tkf.by_layer(LAYERS, FINAL), START, 3.0), "no map after its last layer"),
        (lambda: LAYERS[0].repeated(2), "give `layers` a larger depth"),
        (lambda: tkf.by_layer([tkf.by_layer(LAYERS)]), "weights by layer itself"),
        (lambda: tkf.by_layer(LAYERS, 3), "final must be a map of tokens"),
        (lambda: tkf.energy(START, tkf.by_layer([tkf.Transformer(tkf.Softmax())] * 2)), "choose a layer"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()
