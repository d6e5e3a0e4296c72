"""Texts to tokens: the tokenizer's own numbers, windows, padding, and what is refused."""

import numpy as np
import pytest

from tokenfield.probe import texts as module
from tokenfield.probe.packages import MODELS, model_path, reactions
from tokenfield.probe.smiles import PIECES, SmilesTokenizer, is_smiles_vocabulary
from tokenfield.probe.texts import batches, padded, read_texts, windows


class Letters:
    """A tokenizer whose pieces are letters, with one special token on either side."""

    pad, prefix, suffix = 0, [1], [2]

    def pieces(self, text):
        return [10 + ord(letter) - ord("a") for letter in text if letter.isalpha()]

    def unknown(self, text):
        return text.count("?") / len(text)


def test_a_text_gets_its_special_tokens():
    (window,), notes = windows(Letters(), ["abc"], 16)
    assert window.ids.tolist() == [1, 10, 11, 12, 2]
    assert window.special.tolist() == [True, False, False, False, True]
    assert notes == []


def test_a_long_text_is_cut_into_windows_spread_over_it():
    text = "abcdefghij" * 10  # 100 letters in windows of 8
    found, notes = windows(Letters(), [text], limit=10, count=3)
    pieces = Letters().pieces(text)
    starts = [0, 48, 88]  # windows 0, 6 (of 5.5 rounded to even) and 11 of 12
    assert [window.ids.tolist() for window in found] == [[1, *pieces[s : s + 8], 2] for s in starts]
    assert notes == [
        "text 1 has 100 tokens and the model has 10 positions: measured in 3 windows of 10 tokens of the 12 that it holds, "
        "evenly spread"
    ]
    (short,), notes = windows(Letters(), [text], limit=None, most=20, count=1)
    assert len(short.ids) == 20
    assert "max_tokens is 20" in notes[0]


def test_windows_never_exceed_the_limit_whatever_is_asked():
    found, _ = windows(Letters(), ["abcdefgh" * 9], limit=12, most=4096)
    assert max(len(window.ids) for window in found) == 12
    found, notes = windows(Letters(), ["ab" * 3000], limit=8192)
    assert len(found[0].ids) == module.DEFAULT_MOST == 4096
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "texts must be a list of at least one text"),
        ("abc", "texts must be a list of at least one text, got 'abc'"),
        (["abc", " \n"], "text 2 is empty"),
        (["abc", "a"], r"text 2 has 1 token\(s\): at least 2 are needed for a pair"),
    ],
)
def test_texts_that_cannot_be_measured_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        windows(Letters(), texts, 16)


def test_a_window_must_hold_two_tokens():
    with pytest.raises(ValueError, match="max_tokens must be at least 4"):
        windows(Letters(), ["abc"], 16, most=3)


def test_files_are_texts_or_lists_of_them(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("one\n\ntwo\n")
    second.write_text("three")
    assert read_texts([first, second]) == ["one\n\ntwo\n", "three"]
    assert read_texts([first, second], by_lines=True) == ["one", "two", "three"]
    first.write_text(" \n")
    with pytest.raises(ValueError, match=r"a.txt is empty"):
        read_texts([first])
    first.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not a text in UTF-8"):
        read_texts([first])
    with pytest.raises(ValueError, match=r"cannot read .*none\.txt: No such file"):
        read_texts([tmp_path / "none.txt"])


def test_batches_keep_order_and_bound_tokens(monkeypatch):
    monkeypatch.setattr(module, "BATCH_TOKENS", 20)
    found, _ = windows(Letters(), ["ab", "abc", "ab", "abcdefgh", "abcdef", "ab"], None)
    groups = batches(found, 3, 0)
    assert groups == [[0, 1, 2], [3, 4], [5]]
    assert [k for group in groups for k in group] == list(range(6))
    batch = padded([found[k] for k in groups[0]], 0)
    assert batch.ids.tolist() == [[1, 10, 11, 2, 0], [1, 10, 11, 12, 2], [1, 10, 11, 2, 0]]
    assert batch.mask.sum(1).tolist() == batch.lengths.tolist() == [4, 5, 4]
    assert batch.special[0].tolist() == [True, False, False, True, False]


def test_reactions_are_cut_into_pieces_of_the_vocabulary():
    assert PIECES.findall("CC(=O)Cl.[Na+]>>c1%12B") == [
        "C", "C", "(", "=", "O", ")", "Cl", ".", "[Na+]", ">>", "c", "1", "%12", "B",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["albert", "rxnfp"])
def test_real_reactions_are_covered_by_the_real_vocabulary(name):
    try:
        path, texts = model_path(name) / "vocab.txt", reactions()
    except ValueError as error:
        pytest.skip(str(error))
    assert is_smiles_vocabulary(path)
    tokenizer = SmilesTokenizer(path)
    assert len(texts) >= 3
    for text in texts:
        assert "".join(PIECES.findall(text)) == text
        assert tokenizer.number["[UNK]"] not in tokenizer.pieces(text)


def test_a_vocabulary_of_words_is_not_one_of_reactions(tmp_path):
    words = tmp_path / "vocab.txt"
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n=\nCl\n>>\n##ing\n")
    assert not is_smiles_vocabulary(words)
    words.write_text("=\nCl\n>>\n[CLS]\n")
    with pytest.raises(ValueError, match=r"is damaged: it has no \[PAD\]"):
        SmilesTokenizer(words)


def test_the_hub_tokenizer_gives_its_own_numbers(installed):
    tokenizer = installed("minilm").tokenizer
    text = "To be, or not to be: that is the question."
    (window,), _ = windows(tokenizer, [text], 512)
    own = tokenizer.inner(text, return_special_tokens_mask=True)
    assert window.ids.tolist() == own["input_ids"]
    assert window.special.tolist() == [bool(k) for k in own["special_tokens_mask"]]
    assert tokenizer.pad == 0
    assert (tokenizer.prefix, tokenizer.suffix) == ([101], [102])
    assert tokenizer.unknown(text) == 0
    assert tokenizer.unknown("be \u2603 be") == pytest.approx(1 / 3)


def test_models_that_are_not_installed_name_the_command(monkeypatch):
    with pytest.raises(ValueError, match="name must be one of minilm"):
        model_path("gpt5")
    monkeypatch.setitem(MODELS, "minilm", ("no_such_package", "model"))
    with pytest.raises(ValueError, match="no_such_package is not installed: make models"):
        model_path("minilm")


def test_text_of_the_wrong_kind_is_said(tmp_path):
    _, notes = windows(Letters(), ["abc", "ab??"], 16)
    assert notes == ["50 % of text 2 is not in the model's vocabulary: is it the right kind of text?"]
    words = tmp_path / "vocab.txt"
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nC\n=\nO\n>>\nCl\n")
    tokenizer = SmilesTokenizer(words)
    assert tokenizer.unknown("CC=O>>C Cl") == 0
    assert tokenizer.unknown("C=N h") == pytest.approx(
        2 / 4
    )  # N is a piece that this vocabulary lacks, h is none at all


def test_special_tokens_may_be_absent():
    class Bare(Letters):
        prefix, suffix = [], []

    (window,), _ = windows(Bare(), ["abc"], 16)
    assert not np.asarray(window.special).any()
    assert len(window.ids) == 3
