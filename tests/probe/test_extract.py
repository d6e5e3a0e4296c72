"""Attention rebuilt from extracted weights: the model's own outputs, and its own derivative."""

import numpy as np
import pytest
from conftest import FAMILIES
from small_models import REACTIONS, real

import tokenfield as tkf
from tokenfield.probe.texts import windows

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe.extract import attention_record, head_weights, layer_attention, output  # noqa: E402
from tokenfield.probe.loading import load  # noqa: E402

ENGLISH = "Before we proceed any further, hear me speak. You are all resolved rather to die than to famish?"


def only_window(loaded, text):
    return windows(loaded.tokenizer, [text], None)[0][0]


def largest_error(loaded, text, layers):
    record = attention_record(loaded, only_window(loaded, text), layers)
    errors = []
    for layer in layers:
        attention, X = layer_attention(loaded, layer, record.inputs[layer])
        errors.append(np.abs(output(attention, X) - record.outputs[layer]).max())
    return max(errors)


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("kind", FAMILIES)
def test_rebuilt_attention_is_the_models_own(small, kind):
    assert largest_error(small(kind), REACTIONS[0], range(3)) <= 1e-5


@pytest.mark.parametrize(("name", "text"), [("minilm", ENGLISH), ("albert", REACTIONS[0]), ("rxnfp", REACTIONS[0])])
def test_so_it_is_in_real_models(installed, name, text):
    loaded = installed(name)
    assert largest_error(loaded, text, (0, loaded.architecture.depth - 1)) <= 1e-4


@pytest.mark.slow
def test_smollm2_from_gguf(monkeypatch):
    """One test for all of it: the file takes seconds to read."""
    from test_hooks import assert_equal_to_the_models_own

    loaded = load(real("smollm2"))
    kind = loaded.architecture
    assert (kind.family, kind.norm_name, kind.causal, kind.rotary) == ("llama", "pre-RMSNorm", True, True)
    assert (kind.depth, kind.heads, kind.kv_heads, kind.width, kind.quantized) == (30, 9, 3, 576, "Q4_1")
    assert "Q4_1, a 4-bit format" in loaded.notes[0]
    assert_equal_to_the_models_own(loaded, [ENGLISH, "Speak, speak."])
    assert largest_error(loaded, ENGLISH, (0, 15, 29)) <= 1e-4
    # Outputs of some blocks reach 200, where single precision itself is off by 1e-4: every block, in double.
    loaded.model.double()
    assert largest_error(loaded, 5 * ENGLISH, range(kind.depth)) <= 1e-4
    # What is left comes from angles and a softmax that the model takes in single precision whatever it is given.
    softmax, rotary = torch.nn.functional.softmax, loaded.model.rotary_emb

    def turn(x, position_ids):
        angle = (position_ids[:, :, None] * rotary.inv_freq.double()).repeat(1, 1, 2)
        return angle.cos(), angle.sin()

    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim))
    monkeypatch.setattr(rotary, "forward", turn)
    assert largest_error(loaded, 5 * ENGLISH, (0, 15, 24, 29)) <= 1e-11


def own_jacobian(loaded, layer, x):
    """The derivative of the model's own attention by torch, in double precision."""
    model = loaded.model.double()
    try:
        block = loaded.family.blocks(model)[layer]
        n = len(x)
        mask = torch.zeros(1, 1, n, n, dtype=torch.float64)
        if loaded.architecture.causal:
            mask = mask.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        options = {"attention_mask": mask}
        if loaded.architecture.rotary:
            options["position_embeddings"] = model.rotary_emb(
                torch.zeros(1, dtype=torch.float64), torch.arange(n)[None]
            )
        kept = []
        hook = loaded.family.projection(block).register_forward_hook(lambda module, inputs, result: kept.append(result))

        def function(x):
            kept.clear()
            loaded.family.attention(block)(x[None], **options)
            return kept[0][0]

        if loaded.architecture.family == "bert":  # the projection is outside of the module that reads
            dense = loaded.family.projection(block)
            function = lambda x: dense(block.attention.self(x[None], **options)[0])[0]  # noqa: E731
        try:
            return torch.autograd.functional.jacobian(function, torch.as_tensor(x)).reshape(x.size, x.size).numpy()
        finally:
            hook.remove()
    finally:
        loaded.model.float()


@pytest.mark.parametrize("kind", ["bert", "albert", "llama", "gpt2"])
def test_local_lipschitz_constant_is_the_norm_of_the_models_own_derivative(folders, kind):
    loaded = load(folders(kind))
    x = attention_record(loaded, only_window(loaded, REACTIONS[1]), (1,)).inputs[1]
    expected = np.linalg.norm(own_jacobian(loaded, 1, x), 2)
    attention, X = layer_attention(loaded, 1, x)
    found = tkf.lipschitz.local(attention, X, rtol=1e-9)
    # Rotary angles are rounded to single precision in the model.
    assert found.constant == pytest.approx(expected, rel=1e-5 if kind == "llama" else 1e-7)


def test_heads_without_biases_are_plain_softmax_heads(folders):
    loaded = load(folders("llama"))
    weights = head_weights(loaded, 0)
    from tokenfield.probe.extract import attention_of

    plain = attention_of(weights._replace(frequencies=None))
    assert all(head.positions == () and not head.score.biases for head in plain.heads)
    assert plain.bias is None


def test_rotary_scores_depend_on_the_distance_of_positions_only():
    rng = np.random.default_rng(0)
    Q, K = rng.standard_normal((2, 4, 3))
    head = tkf.Softmax(0.5, Q=Q, K=K, positions=tkf.RoPE(frequencies=[1.0, 0.1]))
    x = np.tile(rng.standard_normal(3), (6, 1))
    tokens = tkf.Tokens(x, positions=np.arange(6.0))
    q, k, bias = head.factors(0.0, tokens.x, tokens, tokens.positions)
    s = np.asarray(q @ k.T)
    assert bias is None
    for offset in range(-5, 6):
        assert np.ptp(np.diagonal(s, offset)) <= 1e-12
    assert s[0, 0] == pytest.approx(0.5 * (Q @ x[0]) @ (K @ x[0]))
    assert abs(s[0, 1] - s[0, 0]) > 1e-3


def test_what_cannot_be_extracted_is_said(small, folders):
    with pytest.raises(ValueError, match="layer must be between 0 and 2, got 3"):
        layer_attention(small("bert"), 3, np.zeros((2, 16)))
    with pytest.raises(ValueError, match=r"x must have shape \(n, 16\), got \(2, 5\)"):
        layer_attention(small("bert"), 0, np.zeros((2, 5)))
    with pytest.raises(ValueError, match="of type distilbert is not supported"):
        layer_attention(small("distilbert"), 0, np.zeros((2, 16)))


@pytest.mark.slow
def test_a_window_narrower_than_the_text(folders):
    """Mistral's: each token sees itself and the three before it."""
    loaded = load(folders("mistral", sliding_window=4))
    assert largest_error(loaded, REACTIONS[0], range(3)) <= 1e-5
    attention, tokens = layer_attention(loaded, 0, np.random.default_rng(0).standard_normal((9, 16)))
    seen = tkf.attention_matrix(tokens, attention)[0] > 0
    i = np.arange(9)
    np.testing.assert_array_equal(seen, (i[:, None] >= i) & (i[:, None] - i < 4))
