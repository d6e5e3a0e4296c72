"""`tkf.probe`: measure a model on texts."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._check import count
from .._jax import in_double
from .._lock import locking
from ..driver.fingerprint import fingerprint
from ..results.labels import with_labels
from ..results.provenance import package_version, provenance
from . import scores, statistics
from .extra import enough_memory
from .groups import group_words
from .labels import LABELS
from .loading import Loaded, load
from .measure import measure
from .null import random_twin
from .predicted import predict
from .result import DATASET, ProbeResult
from .smoothness import measure_smoothness, usable_lengths
from .store import Store
from .texts import WINDOWS, Tokenizer, Window, batches, windows

ATTENTION = (
    "entropy",
    "self_mass",
    "first_mass",
    "beta",
    "beta_slope",
    "gamma",
    "r2gamma",
    "critical_gamma",
    "input_cosine",
)

ONCE = ("bin_edges", "groups")  # not measured with random weights


@in_double
@locking("out", folder=True)
def probe(
    model: str | os.PathLike | Loaded,
    texts: Sequence[str],
    *,
    out: str | os.PathLike | None = None,
    batch: int = 8,
    max_tokens: int | None = None,
    most_windows: int = WINDOWS,
    iterations: int | None = None,
    lengths: Sequence[int] | None = None,
    full: bool = False,
    null: bool | None = None,
    lipschitz: bool | None = None,
    allow_pickle: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    draw: Callable[[ProbeResult], object] | None = None,
) -> ProbeResult:
    """Measure collapse, clustering and smoothness of the tokens of real texts in a pretrained Transformer.

    Args:
        model: a local Hugging Face folder (safetensors), a GGUF file or the folder of one, a hub name in the local cache,
            or the result of `loading.load`.
        texts: at least one, each of at least two tokens. One that is longer than the model's positions is measured in windows.
        out: a folder for finished batches, and then `probe.zarr`: after a kill, the same call continues from there.
        batch: maximum number of texts per forward pass; fewer if they are long.
        max_tokens: maximum number of tokens in a window [the model's positions, at most 4096].
        most_windows: maximum number of windows of one long text, evenly spread over it.
        iterations: how many times to apply a shared block (ALBERT); by default as often as in training.
        lengths: numbers of tokens for the growth of Lipschitz constants [up to the longest text].
        full: measure everything: the same as `null=True, lipschitz=True`; takes minutes instead of seconds.
        null: also measure the same architecture with random weights [if `full`].
        lipschitz: also measure local Lipschitz constants of attention [if `full`, or if `lengths` are given].
        allow_pickle: read a `.bin` file of weights, see `loading.load`.
        seed: seed of the random weights and of the parts of texts in `lengths`.
        progress: show progress bars; by default on a terminal only.
        draw: called with the result before finished batches are removed from `out`: after a kill while it draws, the same
            call does not measure anything again.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.probe("path/to/model", ["to be or not to be"]).summary()["layers"]  # doctest: +SKIP
    """
    batch, seed, most_windows = count("batch", batch), count("seed", seed, 0), count("most_windows", most_windows)
    max_tokens = None if max_tokens is None else count("max_tokens", max_tokens)
    folder = None if out is None else Path(out)
    loaded = model if isinstance(model, Loaded) else load(model, allow_pickle=allow_pickle, iterations=iterations)
    if isinstance(model, Loaded) and iterations not in (None, model.architecture.depth):
        raise ValueError(f"iterations must be given to load for a model that is loaded already, got {iterations}")
    parts, notes = windows(loaded.tokenizer, texts, loaded.architecture.positions_limit, max_tokens, most_windows)
    _check_vocabulary(loaded, parts)
    sizes = None if lengths is None else list(lengths)
    null = full if null is None else null
    lipschitz = (full or sizes is not None) if lipschitz is None else lipschitz
    usable_lengths(loaded, parts, sizes)  # raise errors before anything is measured
    groups = batches(parts, batch, loaded.tokenizer.pad)
    settings = {"batch": batch, "max_tokens": max_tokens, "seed": seed, "null": null, "iterations": iterations}
    measured = ",".join((*statistics.SCALARS, *scores.PER_HEAD, "groups"))  # another version may measure other things
    weights = "" if folder is None else _hash(loaded)
    identity = lambda name: fingerprint(  # noqa: E731
        [part.ids for part in parts], groups, weights, loaded.architecture.depth, seed, name, measured
    )
    stores = {name: Store(folder, name, identity(name)) for name in ("model", "null")}
    dataset = measure(loaded, parts, groups, stores["model"], progress, "measuring")
    if null:
        with enough_memory("for a second model with random weights: use --no-null (null=False)"):
            twin = random_twin(loaded, seed)
        random = measure(twin, parts, groups, stores["null"], progress, "random weights")
        dataset = dataset.assign({f"null_{name}": random[name] for name in random.data_vars if name not in ONCE})
    if not loaded.architecture.supported:
        dataset = dataset.drop_vars([name for base in ATTENTION for name in (base, f"null_{base}") if name in dataset])
    dataset = dataset.assign(
        tokens=("text", np.array([len(part.ids) for part in parts])),
        text_number=("text", np.array([part.number for part in parts])),
        text_excerpt=("text", np.array([part.excerpt for part in parts], dtype=object)),
        groups=("text", np.array(_named(dataset["groups"].values, parts, loaded.tokenizer), dtype=object)),
    )
    predicted = predict(dataset, loaded.architecture.norm, loaded.architecture.causal)
    dataset = dataset.assign(predicted.data_vars).assign_attrs(predicted.attrs)
    if lipschitz and loaded.architecture.supported:
        smoothness_store = Store(folder, "lipschitz", identity(f"lipschitz {sizes}"))
        with enough_memory("with Lipschitz constants: give smaller --lengths, or use --no-lipschitz (lipschitz=False)"):
            smooth, more = measure_smoothness(
                loaded, parts, sizes, seed=seed, store=smoothness_store, progress=progress
            )
        dataset, notes = dataset.assign(smooth.variables), notes + more
    dataset = dataset.assign_attrs(_attributes(loaded, [*loaded.notes, *notes], settings))
    result = ProbeResult(with_labels(dataset, LABELS))
    if folder is not None:
        result.save(folder / DATASET, overwrite=True)
    if draw is not None:
        draw(result)
    stores["model"].clear()
    return result


def _check_vocabulary(loaded: Loaded, parts: Sequence[Window]) -> None:
    """Raise ValueError if the tokenizer gives token ids that the model does not have."""
    size, largest = loaded.model.config.vocab_size, max(int(part.ids.max()) for part in parts)
    if largest >= size:
        raise ValueError(
            f"model: its tokenizer gives token {largest}, but the model has {size}: is it from another model?"
        )


def _named(groups: np.ndarray, parts: Sequence[Window], tokenizer: Tokenizer) -> list[str]:
    """Return the words of the largest groups of each window."""
    return [group_words(str(each), part.ids, tokenizer) for each, part in zip(groups, parts, strict=True)]


def _attributes(loaded: Loaded, notes: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the provenance of the numbers."""
    versions = {f"{name}_version": package_version(name) for name in ("torch", "transformers")}
    return {
        **provenance(),
        "precision": "float32 model, float64 statistics",
        **versions,
        "source": _name(loaded.source),
        "architecture": json.dumps(dataclasses.asdict(loaded.architecture)),
        "notes": json.dumps(notes, ensure_ascii=False),
        "config": json.dumps(settings),
    }


def _name(source: str) -> str:
    """Return a name to display: the last informative part of a path."""
    silent = {"model", "models", "transformers", ".", "..", Path(source).anchor}
    parts = [part for part in Path(source).parts if part not in silent]
    return source if not parts or not Path(source).exists() else parts[-1]


def _hash(loaded: Loaded) -> str:
    """Return a hash of all weights."""
    digest = hashlib.sha256()
    for key, tensor in loaded.model.state_dict().items():
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.float().numpy().tobytes())
    return digest.hexdigest()
