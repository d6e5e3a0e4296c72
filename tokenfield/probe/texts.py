"""Convert texts to batches of token ids: read, tokenize, cut into windows, pad."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._shown import shown

EXCERPT = 80
BATCH_TOKENS = 8192  # of all texts of a batch together, padding included: bounds the memory of a forward pass
DEFAULT_MOST = 4096
WINDOWS = 4
UNKNOWN = 0.05  # if more than this fraction of a text is not in the vocabulary, a note says so


class Tokenizer(Protocol):
    """The interface of a tokenizer: pieces of a text, and the special tokens around them."""

    pad: int
    prefix: list[int]
    suffix: list[int]

    def pieces(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens."""

    def unknown(self, text: str) -> float:
        """Return the fraction of a text that is not in the vocabulary."""

    def word(self, number: int) -> str:
        """Return the piece of text of a token id."""


class HubTokenizer:
    """A tokenizer of `transformers`; the special tokens that it adds are found by tokenizing "a"."""

    def __init__(self, tokenizer: Any):
        self.inner = tokenizer
        found = tokenizer("a", return_special_tokens_mask=True)
        inside = [k for k, special in enumerate(found["special_tokens_mask"]) if not special]
        ids = list(found["input_ids"])
        self.prefix = ids[: inside[0]] if inside else []
        self.suffix = ids[inside[-1] + 1 :] if inside else []
        self.pad = tokenizer.pad_token_id or 0

    def pieces(self, text: str) -> list[int]:
        return list(self.inner(text, add_special_tokens=False, truncation=False)["input_ids"])

    def word(self, number: int) -> str:
        return str(self.inner.decode([number])).strip() or str(self.inner.convert_ids_to_tokens(number))

    def unknown(self, text: str) -> float:
        found, unknown = self.pieces(text), getattr(self.inner, "unk_token_id", None)
        return 0.0 if unknown is None or not found else found.count(unknown) / len(found)


class Window(NamedTuple):
    """A text, or a part of one, as the model reads it.

    Attributes:
        ids: token ids, special ones included.
        special: True for special tokens.
        excerpt: the beginning of the text.
        number: the number of the text, from 1.
    """

    ids: np.ndarray
    special: np.ndarray
    excerpt: str
    number: int = 1


class Batch(NamedTuple):
    """Windows padded to one length on the right.

    Attributes:
        ids: (B, n) token ids; mask: (B, n) True for real tokens; special: (B, n) True for special ones.
    """

    ids: np.ndarray
    mask: np.ndarray
    special: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """(B,) number of real tokens in each window."""
        return self.mask.sum(1)


def read_texts(paths: Sequence[Path], by_lines: bool = False) -> list[str]:
    """Return the texts of files: one for each file, or one for each line that is not empty."""
    texts = []
    for path in paths:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"--text: {path} is not a text in UTF-8") from None
        except OSError as error:
            raise ValueError(f"--text: cannot read {path}: {error.strerror}") from None
        found = [line.strip() for line in text.splitlines() if line.strip()] if by_lines else [text]
        if not text.strip():
            raise ValueError(f"--text: {path} is empty: give a file with some text")
        texts += found
    return texts


def windows(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int | None, most: int | None = None, count: int = WINDOWS
) -> tuple[list[Window], list[str]]:
    """Return each text with its special tokens; a text that is too long becomes at most `count` windows, evenly spread over it.

    Args:
        limit: number of positions of the model, or None.
        most: maximum number of tokens in a window; 4096 by default, at most `limit`.
        count: maximum number of windows of one text.

    Returns:
        the windows, and notes on what was cut.
    """
    if isinstance(texts, str) or not len(texts):
        raise ValueError(f"texts must be a list of at least one text, got {shown(texts)}")
    size = min(most or DEFAULT_MOST, limit or DEFAULT_MOST if most is None else limit or most)
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    if size < around + 2:
        raise ValueError(f"max_tokens must be at least {around + 2} (two tokens and {around} special ones), got {size}")
    found, notes = [], []
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"texts: text {number} is empty: give some words")
        pieces = tokenizer.pieces(text)
        if len(pieces) < 2:
            raise ValueError(f"texts: text {number} has {len(pieces)} token(s): at least 2 are needed for a pair")
        if (share := tokenizer.unknown(text)) > UNKNOWN:
            notes.append(
                f"{100 * share:.0f} % of text {number} is not in the model's vocabulary: is it the right kind of text?"
            )
        inner = size - around
        whole = max(1, len(pieces) // inner)  # full windows
        if len(pieces) <= inner:
            starts = [0]
        else:
            chosen = np.unique(np.linspace(0, whole - 1, min(count, whole)).round().astype(int))
            starts = [int(k) * inner for k in chosen]
            why = f"the model has {limit} positions" if limit is not None and size == limit else f"max_tokens is {size}"
            windows = "1 window" if len(starts) == 1 else f"{len(starts)} windows"
            spread = "evenly spread" if len(starts) > 1 else "the first"
            notes.append(
                f"text {number} has {len(pieces)} tokens and {why}: measured in {windows} of {size} tokens"
                + (f" of the {whole} that it holds, {spread}" if len(starts) < whole else "")
            )
        for start in starts:
            part = pieces[start : start + inner]
            ids = np.array([*tokenizer.prefix, *part, *tokenizer.suffix])
            special = np.ones(len(ids), bool)
            special[len(tokenizer.prefix) : len(ids) - len(tokenizer.suffix)] = False
            excerpt = " ".join(text.split())[:EXCERPT] if start == 0 else f"… token {start} on of text {number}"
            found.append(Window(ids, special, excerpt, number))
    return found, notes


def batches(parts: Sequence[Window], most: int, pad: int) -> list[list[int]]:
    """Return the indices of the windows of each batch: at most `most`, and at most `BATCH_TOKENS` tokens with padding."""
    groups: list[list[int]] = []
    for index, part in enumerate(parts):
        group = groups[-1] if groups else []
        longest = max([len(part.ids), *(len(parts[k].ids) for k in group)])
        if group and len(group) < most and longest * (len(group) + 1) <= BATCH_TOKENS:
            group.append(index)
        else:
            groups.append([index])
    return groups


def padded(parts: Sequence[Window], pad: int) -> Batch:
    """Return windows as one padded batch."""
    n = max(len(part.ids) for part in parts)
    ids, mask, special = np.full((len(parts), n), pad), np.zeros((len(parts), n), bool), np.zeros((len(parts), n), bool)
    for row, part in enumerate(parts):
        ids[row, : len(part.ids)], mask[row, : len(part.ids)] = part.ids, True
        special[row, : len(part.ids)] = part.special
    return Batch(ids, mask, special)
