"""Real models for the claims: found where `make models` put them, run once in a process, and skipped where they are not."""

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
TOKENS = 128  # of a text
PASSAGES = 4  # of English
SCALES = (1.0, 4.0, 16.0)  # values of beta for energies


def with_models(*quick: str, full: tuple[str, ...] = ()) -> Callable:
    """Return a claim's `measure` that is skipped, with what to do about it, where one of its models is not installed."""

    def wrap(measure: Callable[[bool], Evidence]) -> Callable[[bool], Evidence]:
        @wraps(measure)
        def measured(is_quick: bool) -> Evidence:
            reason = missing((*quick, *(() if is_quick else full)))
            return Evidence((), skipped=reason) if reason else measure(is_quick)

        return measured

    return wrap


def missing(names: tuple[str, ...]) -> str:
    """Return why these models cannot be run, or an empty text."""
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
    """Return the model, or its random twin."""
    from ..probe.loading import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pickles: these were chosen
        return load(model_path(name), allow_pickle=True, iterations=iterations, random=random)


def passages(name: str) -> "list[Window]":
    """Four passages of English of 128 tokens, or the reactions that the chemistry packages show."""
    from ..probe.texts import windows

    model, text = loaded(name), ""
    if name in CHEMICAL:
        texts = reactions()
    else:
        text = english_text()
        texts = [text[start : start + 8 * TOKENS] for start in range(0, len(text), len(text) // PASSAGES)][:PASSAGES]
    return windows(model.tokenizer, texts, model.architecture.positions_limit, TOKENS, count=1)[0]


class Layers(NamedTuple):
    """What the claims need of hidden states.

    Attributes:
        cosine: (layers, texts) mean cosines over pairs i ≠ j.
        near: (layers,) share of pairs with a cosine above 0.9.
        energy: (layers, texts, scales) normalized energies at `SCALES`.
        histogram: (layers, 80) counts of pairs on [-0.6, 1], all texts.
    """

    cosine: np.ndarray
    near: np.ndarray
    energy: np.ndarray
    histogram: np.ndarray


@lru_cache(maxsize=16)
def layers(name: str, iterations: int | None = None, random: int | None = None) -> Layers:
    """Return all passages through a model."""
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
    """Return the mean cosine, share above 0.9, energies, histogram of one text at one layer."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    G = u @ u.T
    pairs = G[np.triu_indices(len(G), 1)]
    energies = np.array([np.exp(beta * (G - 1)).mean() for beta in SCALES])
    return float(pairs.mean()), float((pairs > 0.9).mean()), energies, np.histogram(pairs, 80, (-0.6, 1.0))[0]


@lru_cache(maxsize=4)
def attention_reads(name: str) -> tuple[list[np.ndarray], ...]:
    """For each passage, what the attention of each block reads."""
    from ..probe.extract import attention_record

    model = loaded(name)
    records = [attention_record(model, part).inputs for part in passages(name)]
    return tuple([record[block] for block in range(model.architecture.depth)] for record in records)
