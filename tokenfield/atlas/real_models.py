"""Real models for the claims: found where `make models` puts them, and run once per process. Claims skip missing models."""

import warnings
from collections.abc import Callable
from functools import lru_cache, wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..probe.extra import INSTALL
from ..probe.packages import english_text, model_path, reactions
from .claim import Evidence

if TYPE_CHECKING:
    from ..probe.loading import Loaded
    from ..probe.texts import Window

TITLES = {"minilm": "MiniLM", "albert": "ALBERT", "rxnfp": "reaction BERT", "smollm2": "SmolLM2"}
COLORS = {"minilm": "#0072B2", "albert": "#D55E00", "rxnfp": "#009E73", "smollm2": "#CC79A7"}
CHEMICAL = ("albert", "rxnfp")
TOKENS = 128  # tokens per text
PASSAGES = 4  # passages of English
SCALES = (1.0, 4.0, 16.0)  # values of beta in the energies


def with_models(*quick: str, full: tuple[str, ...] = ()) -> Callable:
    """Return a decorator of `measure`: if a model is not installed, the claim is skipped and says how to install it."""

    def wrap(measure: Callable[[bool], Evidence]) -> Callable[[bool], Evidence]:
        @wraps(measure)
        def measured(is_quick: bool) -> Evidence:
            reason = missing((*quick, *(() if is_quick else full)))
            return Evidence((), skipped=reason) if reason else measure(is_quick)

        return measured

    return wrap


def missing(names: tuple[str, ...]) -> str:
    """Return why these models cannot be run, or an empty string."""
    absent = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if absent:
        return f"{absent[0]} is not installed: {INSTALL}, then run `make models`"
    try:
        for name in names:
            model_path(name)
        _ = reactions() if set(names) & set(CHEMICAL) else english_text()
        _ = english_text() if set(names) - set(CHEMICAL) else ""
    except ValueError as error:
        return str(error).removesuffix(": make models") + ": run `make models`"
    return ""


@lru_cache(maxsize=8)
def loaded(name: str, iterations: int | None = None, random: int | None = None) -> "Loaded":
    """Return the model, or the same architecture with random weights if `random` is a seed."""
    from ..probe.loading import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning about pickles: these files are known
        return load(model_path(name), allow_pickle=True, iterations=iterations, random=random)


def passages(name: str) -> "list[Window]":
    """Return four English passages of 128 tokens, or the example reactions of the chemistry packages."""
    from ..probe.texts import windows

    model, text = loaded(name), ""
    if name in CHEMICAL:
        texts = reactions()
    else:
        text = english_text()
        texts = [text[start : start + 8 * TOKENS] for start in range(0, len(text), len(text) // PASSAGES)][:PASSAGES]
    return windows(model.tokenizer, texts, model.architecture.positions_limit, TOKENS, count=1)[0]


class Layers(NamedTuple):
    """Statistics of hidden states.

    Attributes:
        cosine: (layers, texts) mean cosine over pairs i ≠ j.
        near: (layers,) fraction of pairs with a cosine above 0.9.
        energy: (layers, texts, scales) normalized energies at `SCALES`.
        histogram: (layers, 80) counts of pairs on [-0.6, 1], all texts.
    """

    cosine: np.ndarray
    near: np.ndarray
    energy: np.ndarray
    histogram: np.ndarray


@lru_cache(maxsize=16)
def layers(name: str, iterations: int | None = None, random: int | None = None) -> Layers:
    """Return the statistics of all passages at every layer of a model."""
    from ..probe.hooks import AbstractVisitor, stream
    from ..probe.texts import padded

    model, parts = loaded(name, iterations, random), passages(name)
    found: list[list[Any]] = []

    class Visitor(AbstractVisitor):
        def hidden(self, layer: int, x: Any) -> None:
            found[-1].append(gram_statistics(x[0].double().numpy()))

    for part in parts:
        found.append([])
        stream(model, padded([part], model.tokenizer.pad), Visitor())
    columns = [np.array([[layer[k] for layer in text] for text in found]) for k in range(4)]
    cosine, near, energy, histogram = (column.swapaxes(0, 1) for column in columns)
    pairs = histogram.sum(-1, keepdims=True)
    weighted = (near * pairs[..., 0]).sum(1) / pairs[..., 0].sum(1)
    return Layers(cosine, weighted, energy, histogram.sum(1))


def gram_statistics(x: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return the mean cosine, the fraction above 0.9, the energies and the histogram, for tokens x (n, d) of one text."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    G = u @ u.T
    pairs = G[np.triu_indices(len(G), 1)]
    energies = np.array([np.exp(beta * (G - 1)).mean() for beta in SCALES])
    return float(pairs.mean()), float((pairs > 0.9).mean()), energies, np.histogram(pairs, 80, (-0.6, 1.0))[0]


@lru_cache(maxsize=4)
def attention_reads(name: str) -> tuple[list[np.ndarray], ...]:
    """Return, for each passage, the inputs (n, d) of the attention of each block."""
    from ..probe.extract import attention_record

    model = loaded(name)
    records = [attention_record(model, part).inputs for part in passages(name)]
    return tuple([record[block] for block in range(model.architecture.depth)] for record in records)
