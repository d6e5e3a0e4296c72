"""`from_pretrained`: the layers of a real model are layers of tokenfield, at every depth."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from conftest import FAMILIES  # noqa: E402
from layer_differences import ENGLISH, MODELS, differences, errors, pretrained, stated  # noqa: E402
from small_models import REACTIONS, real  # noqa: E402

import tokenfield as tkf  # noqa: E402


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


@pytest.mark.slow
@pytest.mark.parametrize("title", MODELS)
def test_every_layer_in_both_precisions(title):
    """The page "Hidden states of real models" states what is measured. Single precision rounds differently on each processor."""
    real(MODELS[title][0])
    pre, text = pretrained(title)
    entry, double, single, rounding = differences(pre, text)
    assert double.max() < 1e-9
    # transformers in single is as far from its own run in double as from us, to all digits that double leaves
    np.testing.assert_allclose(single, rounding, atol=double.max())
    assert (single < 1e-4 * np.maximum(1, entry)).all()
    if title in ("MiniLM", "BERT on reactions"):
        assert single.max() < 1e-4
    if title == "SmolLM2":  # from a GGUF file; its layers have weights of their own
        assert pre.depth == pre.model.depth == 30
    if title == "ALBERT × 48":
        assert pre.model.depth is None  # one block, shared
        assert single[:13].max() < 1e-4  # as it was trained
    rows = stated()[title]
    assert len(rows) == len(entry)
    np.testing.assert_allclose(rows[:, 0], entry, rtol=5e-3)
    np.testing.assert_allclose(np.log(rows[:, 2] + 1e-9), np.log(single + 1e-9), atol=np.log(5))
    assert rows[:, 1].max() < 1e-9


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="of type distilbert is not supported"):
        tkf.from_pretrained(folders("distilbert"))
    with pytest.raises(ValueError, match="choose a layer"):
        tkf.attention_matrix(pre.tokens("cc"), pre.model)


@pytest.mark.parametrize(("kind", "norm"), [("bert", "post-LN"), ("llama", "pre-RMSNorm")])
def test_a_model_is_shown_in_a_line_without_its_weights(folders, kind, norm):
    pre = tkf.from_pretrained(folders(kind))
    assert repr(pre) == f"Pretrained({kind}, {norm}, depth 3, 4 heads, width 16{'; '.join(['', *pre.notes])})"
    assert repr(pre.loaded) == repr(pre).replace("Pretrained", "Loaded")
    page = pre._repr_html_()
    for words in (norm, "3 layers", str(folders(kind)), ">16<", *pre.notes):
        assert words in page
    assert "Embedding(" not in page
    assert pre.loaded._repr_html_().count("<tr") == page.count("<tr")
