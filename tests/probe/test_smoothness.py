"""Lipschitz constants over lengths: samples are parts of the texts, constants are those of the package, runs can be resumed."""

import numpy as np
import pytest
from small_models import REACTIONS

from tokenfield.lipschitz import fit_power_law, local

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe import smoothness  # noqa: E402
from tokenfield.probe.extract import attention_record, head_weights, layer_attention  # noqa: E402
from tokenfield.probe.scores import lower_bound_gamma  # noqa: E402
from tokenfield.probe.smoothness import cut, measure_smoothness, usable_lengths  # noqa: E402
from tokenfield.probe.store import Store  # noqa: E402
from tokenfield.probe.texts import windows  # noqa: E402
from tokenfield.probe.worst_case import worst_case  # noqa: E402


@pytest.fixture(scope="module")
def bert(small):
    loaded = small("bert")
    return loaded, windows(loaded.tokenizer, REACTIONS, 64)[0]


def test_a_sample_is_a_part_of_a_text_between_special_tokens(bert):
    loaded, parts = bert
    rng = np.random.default_rng(0)
    texts = [" ".join(map(str, part.ids[~part.special])) for part in parts]
    starts = set()
    for _ in range(20):
        window = cut(loaded, parts, 9, rng)
        assert len(window.ids) == len(window.special) == 9
        assert [window.ids[0], window.ids[-1]] == [*loaded.tokenizer.prefix, *loaded.tokenizer.suffix]
        assert window.special.tolist() == [True] + [False] * 7 + [True]
        inner = " ".join(map(str, window.ids[1:-1]))
        assert any(inner in text for text in texts)
        starts.add(inner)
    assert len(starts) > 3


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_constants_are_those_of_the_package_at_the_same_samples(small, kind):
    loaded = small(kind)
    parts = windows(loaded.tokenizer, REACTIONS, 64)[0]
    data, notes = measure_smoothness(loaded, parts, (4, 8), samples=2, seed=5, progress=False)
    assert notes == []
    assert data["lipschitz"].shape == (3, 2, 2)
    seen = []
    for number in range(4):
        window = cut(loaded, parts, (4, 8)[number // 2], np.random.default_rng([5, number]))
        seen.append(window)
        read = attention_record(loaded, window).inputs
        for block in range(3):
            expected = local(*layer_attention(loaded, block, read[block])).constant
            found = float(data["lipschitz"][block, number // 2, number % 2])
            assert found == pytest.approx(expected, rel=1e-5)  # rtol = 1e-3 on the residual is far less on the value
            assert found <= float(data["lipschitz_upper"][block, number // 2])
    weights = head_weights(loaded, 2)
    R = max(np.linalg.norm(attention_record(loaded, w).inputs[2], axis=1).max() for w in seen)
    head = max(range(len(weights.Q)), key=lambda h: lower_bound_gamma(weights)[h])
    worst = worst_case(weights, head, R, (4, 8)).constants
    np.testing.assert_allclose(data["lipschitz_worst"][2], worst, rtol=1e-5)
    law = fit_power_law([4, 8], data["lipschitz"].values[1])
    assert float(data["lipschitz_power"][1]) == pytest.approx(law.power, rel=1e-12)
    assert float(data["lipschitz_power_high"][1]) == pytest.approx(law.interval[1], rel=1e-12)


def test_only_some_blocks(bert):
    data, _ = measure_smoothness(*bert, (4, 8), samples=1, blocks=[1], progress=False)
    assert np.isfinite(data["lipschitz_power"].values).tolist() == [False, True, False]


def test_lengths_are_those_that_the_texts_have(bert):
    loaded, parts = bert
    longest = max(len(part.ids) for part in parts)
    assert usable_lengths(loaded, parts, None) == ([n for n in smoothness.LENGTHS if n <= longest], [])
    sizes, notes = usable_lengths(loaded, parts, (8, 4, 500))
    assert sizes == [4, 8]
    assert notes == [
        f"lengths 500 left out of the growth of Lipschitz constants: the longest text has {longest} tokens, the limit is 1024"
    ]
    data, notes = measure_smoothness(loaded, parts, (4,), progress=False)
    assert not data
    assert "too short" in notes[-1]
    with pytest.raises(ValueError, match="lengths"):
        usable_lengths(loaded, parts, (2, 8))  # two special tokens leave none


def test_a_run_that_was_killed_goes_on(bert, tmp_path, monkeypatch):
    loaded, parts = bert
    options = {"samples": 2, "seed": 1, "progress": False}
    whole, _ = measure_smoothness(loaded, parts, (4, 8), **options)
    calls = []
    real = smoothness.layer_constant

    def dies(*arguments):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(smoothness, "layer_constant", dies)
    with pytest.raises(KeyboardInterrupt):
        measure_smoothness(loaded, parts, (4, 8), store=Store(tmp_path, "lipschitz", "x"), **options)
    resumed, _ = measure_smoothness(loaded, parts, (4, 8), store=Store(tmp_path, "lipschitz", "x"), **options)
    assert len(calls) == 8 + 12 - 6  # two samples of three blocks had been kept
    np.testing.assert_array_equal(resumed["lipschitz"], whole["lipschitz"])
