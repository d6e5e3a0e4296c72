"""Run all texts through a model, batch by batch, and collect the measurements in a dataset."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..driver.progress import Progress
from . import scores, statistics
from .extra import enough_memory
from .groups import WIDTH, largest_groups
from .hooks import AbstractVisitor, stream
from .loading import Loaded
from .pairs import EDGES
from .store import Store
from .texts import Batch, Window, padded

if TYPE_CHECKING:
    import xarray


class Measuring(AbstractVisitor):
    """Statistics of every layer during a forward pass.

    The energy of a layer is taken at the median beta of the heads of the block after it (for the last layer, the last block), so
    each layer is stored until attention has read it; only one layer is stored at a time.
    """

    def __init__(self, loaded: Loaded, batch: Batch, gammas: list[np.ndarray], seen: list[int | None]):
        architecture, texts = loaded.architecture, len(batch.ids)
        self.batch, self.architecture, self.gammas, self.seen = batch, architecture, gammas, seen
        self.found = statistics.empty(architecture.depth, texts)
        self.found |= scores.empty(architecture.depth, max(architecture.heads, 1), texts)
        self.found["groups"] = np.full(texts, "[]", dtype=f"<U{WIDTH}")
        self.found |= {"stream_cosine": np.full(texts, np.nan), "stream_norm": np.full(texts, np.nan)}
        self.waiting: tuple[int, list[np.ndarray]] | None = None
        self.betas: list[float | None] = [None] * texts

    def hidden(self, layer: int, x: Any) -> None:
        self.finish()
        self.waiting = layer, self._texts(x)
        if layer == self.architecture.depth:
            self.finish()

    def attention(self, block: int, x: Any, q: Any, k: Any, v: Any, scaling: float) -> None:
        for text, n in enumerate(self.batch.lengths):
            parts = x[text, :n], q[text, :, :n], k[text, :, :n]
            found = scores.head_statistics(
                *parts, scaling, self.architecture.causal, self.seen[block], self.gammas[block]
            )
            for name, value in found.items():
                self.found[name][block, ..., text] = value
            self.betas[text] = float(np.median(found["beta"]))
        self.finish()

    def stream(self, x: Any) -> None:
        for text, tokens in enumerate(self._texts(x)):
            lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
            total, n = (tokens / np.maximum(lengths, np.finfo(float).tiny)).sum(0), len(tokens)
            self.found["stream_cosine"][text] = (total @ total - n) / (n * (n - 1))
            self.found["stream_norm"][text] = lengths.mean()

    def finish(self) -> None:
        """Measure the stored layer."""
        if self.waiting is None:
            return
        (layer, tokens), self.waiting = self.waiting, None
        for text, x in enumerate(tokens):
            if not np.isfinite(x).all():
                raise ValueError(
                    f"model: hidden states of layer {layer} are not finite: its weights are damaged or overflow"
                )
            beta = self.betas[text]
            special = self.batch.special[text, : len(x)]
            usable = beta if beta is not None and np.isfinite(beta) else None
            numbers = statistics.layer_statistics(x, special, usable)
            labels = numbers.pop("labels")
            if layer == self.architecture.depth:
                self.found["groups"][text] = largest_groups(labels)
            for name, value in numbers.items():
                self.found[name][layer, text] = value

    def _texts(self, x: Any) -> list[np.ndarray]:
        return [x[text, :n].double().numpy() for text, n in enumerate(self.batch.lengths)]


def measure(
    loaded: Loaded,
    parts: Sequence[Window],
    groups: Sequence[list[int]],
    store: Store,
    progress: bool | None,
    title: str,
) -> "xarray.Dataset":
    """Return the dataset of all windows; finished batches are read from `store`."""
    gammas, seen = _read_heads(loaded)
    found = []
    with Progress(progress, title, len(groups), "batches") as bar:
        for number, group in enumerate(groups):
            stored = store.read(number)
            if stored is None:
                batch = padded([parts[k] for k in group], loaded.tokenizer.pad)
                visitor = Measuring(loaded, batch, gammas, seen)
                texts, n = batch.ids.shape
                with enough_memory(
                    f"with {texts} text(s) of {n} tokens at once: give a smaller --batch or --max-tokens"
                ):
                    stream(loaded, batch, visitor)
                stored = visitor.found
                store.write(number, stored)
            found.append(stored)
            bar.update(number + 1)
    return _dataset(found, [k for group in groups for k in group])


def _read_heads(loaded: Loaded) -> tuple[list[np.ndarray], list[int | None]]:
    """Return, for each block, the gammas of its heads and their attention window; a shared block is read once."""
    if loaded.family is None:
        return [], []
    found: dict[int, tuple[np.ndarray, int | None]] = {}
    blocks = loaded.family.blocks(loaded.model)
    for block in blocks:
        if id(block) not in found:
            weights = loaded.family.weights(loaded.model, block)
            found[id(block)] = scores.lower_bound_gamma(weights), weights.window
    return [found[id(block)][0] for block in blocks], [found[id(block)][1] for block in blocks]


AXES = {
    **{name: ("layer", "text") for name in statistics.SCALARS},
    **{name: ("layer", "text", "bin") for name in statistics.HISTOGRAMS},
    "fixed_energy": ("layer", "text", "scale"),
    **{name: ("block", "head", "text") for name in scores.PER_HEAD},
    "critical_gamma": ("block", "text"),
    "input_cosine": ("block", "text"),
    "stream_cosine": ("text",),
    "stream_norm": ("text",),
    "groups": ("text",),
}


def _dataset(found: list[dict[str, np.ndarray]], order: list[int]) -> "xarray.Dataset":
    import xarray

    back = np.argsort(order)
    data = {
        name: (
            axes,
            np.concatenate([part[name] for part in found], axis=axes.index("text")).take(back, axes.index("text")),
        )
        for name, axes in AXES.items()
    }
    layers, blocks, heads = len(data["mean_cosine"][1]), *data["beta"][1].shape[:2]
    coords = {
        "layer": np.arange(layers),
        "block": np.arange(blocks),
        "head": np.arange(heads),
        "text": np.arange(len(order)),
        "scale": np.array(statistics.SCALES),
    }
    return xarray.Dataset({**data, "bin_edges": (("edge",), EDGES)}, coords=coords)
