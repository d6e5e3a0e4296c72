"""`from_pretrained`: the layers of a real model are layers of tokenfield, at every depth."""

import contextlib
import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='pip install ".[models]"')

from conftest import FAMILIES  # noqa: E402
from small_models import REACTIONS, real  # noqa: E402

import tokenfield as tkf  # noqa: E402

ENGLISH = "Before we proceed any further, hear me speak. You are all resolved rather to die than to famish?"


@contextlib.contextmanager
def all_in_double(model):
    """A model in double precision. Llama's angles, RMSNorm and softmax are in single whatever they are given: patched here."""
    softmax = torch.nn.functional.softmax
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim))
        rotary = getattr(model, "rotary_emb", None)
        if rotary is not None:
            patch.setattr(rotary, "forward", functools.partial(turns, rotary))
        for norm in model.modules():
            if hasattr(norm, "variance_epsilon"):
                patch.setattr(norm, "forward", functools.partial(rms_norm, norm))
        yield torch.nn.Module.double(model)
    torch.nn.Module.float(model)


def turns(rotary, x, position_ids):
    angle = position_ids[:, :, None] * rotary.inv_freq.double().repeat(2)
    return angle.cos(), angle.sin()


def rms_norm(norm, x):
    return norm.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)


def own_states(pre, text):
    """(depth + 1, n, d) hidden states of `transformers`, in double precision."""
    with torch.no_grad(), all_in_double(pre.loaded.model) as model:
        found = model(torch.as_tensor(pre.ids(text))[None], output_hidden_states=True).hidden_states
        return np.stack([x[0].numpy() for x in found])


def errors(pre, text):
    """The largest difference at each layer."""
    expected = own_states(pre, text)
    run = tkf.layers(pre.model, pre.tokens(text), depth=pre.depth)
    assert len(run.states) == len(expected) == pre.depth + 1
    return [float(np.abs(np.asarray(s.x) - x).max()) for s, x in zip(run.states, expected, strict=True)]


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_hidden_state(folders, kind):
    found = errors(tkf.from_pretrained(folders(kind)), REACTIONS[0])
    assert max(found) < 1e-9, found


def test_a_window(folders):
    found = errors(tkf.from_pretrained(folders("mistral", sliding_window=4)), REACTIONS[0])
    assert max(found) < 1e-9, found


@pytest.mark.parametrize(("name", "text"), [("minilm", ENGLISH), ("albert", REACTIONS[0]), ("rxnfp", REACTIONS[0])])
def test_real_models(installed, name, text):
    loaded = installed(name)
    found = errors(tkf.from_pretrained(loaded.source, allow_pickle=True), text)
    assert max(found) < 1e-9, found


def test_smollm2_from_gguf():
    """30 layers; in double to 1e-9, and as the model runs, in single, to 1e-4 of the largest entry."""
    pre = tkf.from_pretrained(real("smollm2"))
    assert pre.depth == pre.model.depth == 30
    assert max(errors(pre, ENGLISH)) < 1e-9
    with torch.no_grad():
        single = pre.loaded.model(torch.as_tensor(pre.ids(ENGLISH))[None], output_hidden_states=True).hidden_states
    states = tkf.layers(pre.model, pre.tokens(ENGLISH), depth=30).states
    for state, x in zip(states, single, strict=True):
        assert np.abs(np.asarray(state.x) - x[0].numpy()).max() < 1e-4 * max(1.0, float(x.abs().max()))


def test_albert_48_times(installed):
    pre = tkf.from_pretrained(installed("albert").source, iterations=48, allow_pickle=True)
    assert pre.depth == 48
    assert pre.model.depth is None  # one block, shared
    assert max(errors(pre, REACTIONS[0])) < 1e-9


def test_derivatives_of_a_real_layer(folders):
    """The Lipschitz constant of a block, with its norms, MLP and biases, beside autodiff through the layer."""
    import jax

    pre = tkf.from_pretrained(folders("gpt2"))
    tokens = pre.tokens(REACTIONS[1])

    def move(x):
        return tkf.solve(pre.model, tkf.Tokens(x, positions=tokens.positions), 1.0, method=tkf.Layers()).final.x

    dense = jax.jacobian(move)(tokens.x).reshape(tokens.x.size, tokens.x.size)
    found = tkf.lipschitz.local(pre.model, tokens, rtol=1e-10).constant
    assert found == pytest.approx(np.linalg.norm(dense, 2), rel=1e-7)


def test_bad_input(folders):
    pre = tkf.from_pretrained(folders("bert"))
    with pytest.raises(ValueError, match="text must be a string that is not empty"):
        pre.tokens("")
    with pytest.raises(ValueError, match="the model has positions for 64"):
        pre.tokens("c" * 70)
    with pytest.raises(ValueError, match="of type distilbert is not read"):
        tkf.from_pretrained(folders("distilbert"))
    with pytest.raises(ValueError, match="choose one"):
        tkf.attention_matrix(pre.tokens("cc"), pre.model)
