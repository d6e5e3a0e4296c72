"""What streams by is what the model itself records, and nothing of it is kept."""

import weakref

import pytest
from conftest import FAMILIES
from small_models import REACTIONS, reference

from tokenfield.probe.texts import padded, windows

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe.extract import head_weights  # noqa: E402
from tokenfield.probe.hooks import AbstractVisitor, plain_blocks, stream  # noqa: E402
from tokenfield.probe.loading import load  # noqa: E402
from tokenfield.probe.scores import attention_rows  # noqa: E402

ENGLISH = [
    "Before we proceed any further, hear me speak.",
    "Speak, speak.",
    "You are all resolved rather to die than to famish?",
]


class Record(AbstractVisitor):
    """Copies of everything, in order."""

    def __init__(self):
        self.order, self.states, self.met, self.last = [], [], [], None

    def hidden(self, layer, x):
        self.order.append(("hidden", layer))
        self.states.append(x.clone())

    def attention(self, block, x, q, k, v, scaling):
        self.order.append(("attention", block))
        self.met.append((q.clone(), k.clone(), scaling))

    def stream(self, x):
        self.last = x.clone()


def batch_of(loaded, texts):
    return padded(windows(loaded.tokenizer, texts, loaded.architecture.positions_limit)[0], loaded.tokenizer.pad)


def assert_equal_to_the_models_own(loaded, texts):
    batch = batch_of(loaded, texts)
    record = Record()
    stream(loaded, batch, record)
    own = reference(loaded, batch)
    real = torch.as_tensor(batch.mask)
    assert len(record.states) == len(own.hidden_states) == loaded.architecture.depth + 1
    for mine, theirs in zip(record.states, own.hidden_states, strict=True):
        assert float((mine - theirs).abs()[real].max()) <= 1e-5
    window = head_weights(loaded, 0).window
    assert len(record.met) == len(own.attentions) == loaded.architecture.depth
    for (q, k, scaling), theirs in zip(record.met, own.attentions, strict=True):
        for text, n in enumerate(batch.lengths):
            rows = attention_rows(q[text, :, :n], k[text, :, :n], scaling, loaded.architecture.causal, window)
            mine = torch.cat(list(rows), 1)
            assert float((mine - theirs[text, :, :n, :n]).abs().max()) <= 1e-5
    return record


@pytest.mark.parametrize("kind", FAMILIES)
def test_hidden_states_and_attention_are_those_that_the_model_records(small, kind):
    record = assert_equal_to_the_models_own(small(kind), REACTIONS)
    depth = small(kind).architecture.depth
    expected = [step for k in range(depth) for step in (("hidden", k), ("attention", k))] + [("hidden", depth)]
    assert record.order == expected


@pytest.mark.parametrize(("name", "texts"), [("minilm", ENGLISH), ("albert", REACTIONS), ("rxnfp", REACTIONS)])
def test_so_they_are_in_real_models(installed, name, texts):
    assert_equal_to_the_models_own(installed(name), texts)


def test_a_window_of_attention_is_seen(small):
    assert head_weights(small("mistral", sliding_window=4), 0).window == 4
    assert_equal_to_the_models_own(small("mistral", sliding_window=4), REACTIONS)


def test_an_encoder_used_as_a_decoder_is_causal(small):
    assert small("bert", is_decoder=True).architecture.causal
    assert_equal_to_the_models_own(small("bert", is_decoder=True), REACTIONS)


def test_a_final_norm_comes_after_the_stream(small):
    record = assert_equal_to_the_models_own(small("llama"), REACTIONS[:1])
    normed = small("llama").model.norm(record.last)
    assert float((normed - record.states[-1]).abs().max()) <= 1e-6
    assert float((record.last - record.states[-1]).abs().max()) > 0.1


def test_a_shared_block_runs_deeper_than_trained(folders):
    deep = load(folders("albert"), iterations=48)
    record = assert_equal_to_the_models_own(deep, REACTIONS[:2])
    assert len(record.states) == 49
    trained = Record()
    shallow = load(folders("albert"))
    stream(shallow, batch_of(shallow, REACTIONS[:2]), trained)
    assert float((trained.states[3] - record.states[3]).abs().max()) == 0
    assert deep.notes[-1] == "the shared block is run 48 times; it was trained for 3"


def test_nothing_is_kept_however_deep(folders):
    class Alive(AbstractVisitor):
        """How many of the hidden states that were shown still exist when the next one comes."""

        def __init__(self):
            self.shown, self.most = [], 0

        def hidden(self, layer, x):
            self.most = max(self.most, sum(ref() is not None for ref in self.shown))
            self.shown.append(weakref.ref(x))

    most = []
    for iterations in (6, 48):
        deep, visitor = load(folders("albert"), iterations=iterations), Alive()
        stream(deep, batch_of(deep, REACTIONS), visitor)
        assert len(visitor.shown) == iterations + 1
        most.append(visitor.most)
    assert most[0] == most[1] <= 2


def test_long_texts_take_the_fused_softmax_and_give_the_same(small, monkeypatch):
    loaded = small("llama")
    batch, plain, fused = batch_of(loaded, REACTIONS), Record(), Record()
    stream(loaded, batch, plain)
    monkeypatch.setattr("tokenfield.probe.hooks.EAGER_ENTRIES", 0)
    stream(loaded, batch, fused)
    real = torch.as_tensor(batch.mask)
    for a, b in zip(plain.states, fused.states, strict=True):
        assert float((a - b).abs()[real].max()) <= 1e-5 * float(a[real].abs().max())  # sums are in another order


def test_the_model_is_left_as_it_was(small):
    loaded = small("bert")
    hooks = lambda: sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in loaded.model.modules())  # noqa: E731
    before = loaded.model.config._attn_implementation, hooks()
    stream(loaded, batch_of(loaded, REACTIONS), Record())
    assert (loaded.model.config._attn_implementation, hooks()) == before
    assert before[0] == "eager"


def test_attention_that_is_not_read_still_shows_hidden_states(small):
    loaded = small("distilbert")
    assert not loaded.architecture.supported
    assert "supported: albert, bert" in loaded.architecture.reason
    batch, record = batch_of(loaded, REACTIONS), Record()
    stream(loaded, batch, record)
    own, real = reference(loaded, batch), torch.as_tensor(batch.mask)
    assert record.met == []
    for mine, theirs in zip(record.states, own.hidden_states, strict=True):
        assert float((mine - theirs).abs()[real].max()) <= 1e-5


def test_blocks_that_cannot_be_found_are_said(small):
    model = small("distilbert").model
    model.config.num_hidden_layers, before = 7, model.config.num_hidden_layers
    try:
        with pytest.raises(ValueError, match="the 7 blocks of the model, of type distilbert, were not found"):
            plain_blocks(model)
    finally:
        model.config.num_hidden_layers = before
