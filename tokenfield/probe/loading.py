"""Models from disk: offline, without remote code, without pickles unless allowed."""

import dataclasses
import json
import os
import warnings
from pathlib import Path
from typing import Any

from .._check import count
from .._explained import card
from .architecture import Architecture, detect
from .extra import need, one_gguf_reader, out_of_memory, quiet_transformers
from .families import AbstractFamily, family_of
from .smiles import SmilesTokenizer, is_smiles_vocabulary
from .tensors import check_counts, check_sizes, check_whole, shapes_in
from .texts import HubTokenizer, Tokenizer
from .weights import read_pickled, source_folder, weights_in
from .wording import stored_text

# Without one of these files `transformers` creates an empty vocabulary, and every word would be unknown.
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
ADAPTER = "adapter_config.json"  # with PEFT installed, transformers would read the weights that it names


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model ready to be probed.

    Attributes:
        source: the model that was requested.
        model: the `transformers` model without its head, in float32, in evaluation mode.
        tokenizer: its tokenizer.
        architecture: its architecture.
        family: how its attention is extracted; None for a family that is not in the table.
        notes: notes for readers of the report.
    """

    source: str
    model: Any
    tokenizer: Tokenizer
    architecture: Architecture
    family: AbstractFamily | None
    notes: tuple[str, ...]

    def facts(self) -> dict[str, str]:
        """Return the properties of the model as text: where it is from, family, norm, depth, heads, width, notes."""
        kind = self.architecture
        shared = "" if kind.kv_heads == kind.heads else f" ({kind.kv_heads} for keys and values)"
        rows = {
            "source": self.source,
            "family": f"{kind.family}, {kind.norm_name}{', causal' if kind.causal else ''}",
            "depth": f"{kind.depth} layers{', one shared block' if kind.shared_block else ''}",
            "heads": f"{kind.heads}{shared}",
            "width": str(kind.width),
        }
        return rows | ({"notes": "; ".join(self.notes)} if self.notes else {})

    def short(self) -> str:
        """Return the properties of the model in a line."""
        kind = self.architecture
        notes = f"; {'; '.join(self.notes)}" if self.notes else ""
        return f"{kind.family}, {kind.norm_name}, depth {kind.depth}, {kind.heads} heads, width {kind.width}{notes}"

    def __repr__(self) -> str:
        return f"Loaded({self.short()})"

    def _repr_html_(self) -> str:
        return card("Loaded", self.facts())


def load(
    source: str | os.PathLike,
    *,
    allow_pickle: bool = False,
    random: int | None = None,
    iterations: int | None = None,
) -> Loaded:
    """Load a model: a local Hugging Face folder, a GGUF file or its folder, or a hub name in the local cache.

    Nothing is downloaded, no code from a model folder is run, and weights are read from safetensors or GGUF.

    Args:
        source: a folder, a `.gguf` file, a hub name that is already cached, or the name of a model of `make models`: minilm,
            smollm2, albert or rxnfp.
        allow_pickle: also read a `.bin` file. It is read by torch's restricted reader, which knows tensors only.
        random: a seed: use the same architecture with random weights, drawn like those before training.
        iterations: how many times to apply a shared block; by default as often as in training.

    Example:
        >>> from tokenfield.probe.loading import load
        >>> load("path/to/model").architecture.norm_name  # doctest: +SKIP
        'post-LN'
    """
    iterations = None if iterations is None else count("iterations", iterations)
    folder = source_folder(source)
    weights = weights_in(folder, allow_pickle)
    quiet_transformers()
    with _as_one_line(folder):
        if weights.kind == "gguf":
            loaded = _from_gguf(str(source), weights, iterations)
        else:
            loaded = _from_folder(str(source), folder, weights, iterations)
    if random is not None:
        from .null import random_twin

        loaded = random_twin(loaded, random)
    if iterations is not None:
        trained = loaded.model.config.num_hidden_layers
        loaded.model.config.num_hidden_layers = iterations
        note = f"the shared block is run {iterations} times; it was trained for {trained}"
        loaded = dataclasses.replace(loaded, notes=(*loaded.notes, note))
    return loaded


class _as_one_line:
    """Replace any error while reading files by one line that names the folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or not isinstance(error, Exception):
            return
        first, *more = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        first = f"{first} {more[0]}" if first.endswith(":") and more else first
        if out_of_memory(error):
            raise ValueError(f"model: {self.folder} does not fit into memory: use a smaller model") from None
        if isinstance(error, ValueError) and str(error).startswith(("model:", "the probe needs", "iterations")):
            return
        raise ValueError(f"model: {self.folder} cannot be read, it may be damaged: {first}") from error


def _config(folder: Path, names: list[str]) -> Any:
    """Return the config; in old files without `model_type`, the type is taken from the names of the weights."""
    transformers = need("transformers")
    try:
        plain = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"model: {folder / 'config.json'} is damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(plain, dict):
        raise ValueError(
            f"model: {folder / 'config.json'} is damaged: it must hold names and values, got a {type(plain).__name__}"
        )
    if plain.get("is_encoder_decoder"):
        raise _encoder_decoder(plain.get("model_type"))
    check_counts(plain)
    if not plain.get("model_type"):
        known = [kind for kind in ("albert", "bert", "roberta", "gpt2") if any(n.startswith(kind + ".") for n in names)]
        if not known:
            raise ValueError(f'model: {folder / "config.json"} has no model_type: add it, e.g. "bert"')
        return transformers.AutoConfig.for_model(known[0], **plain)
    return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _encoder_decoder(name: Any) -> ValueError:
    return ValueError(
        f"model: {name or 'this'} is an encoder–decoder model: give an encoder (BERT, ALBERT, …) or a decoder (Llama, GPT-2, …)"
    )


def _from_folder(source: str, folder: Path, weights: Any, iterations: int | None) -> Loaded:
    torch, transformers = need("torch"), need("transformers")
    notes: list[str] = []
    if (folder / ADAPTER).exists():
        raise ValueError(
            f"model: {folder} has an adapter ({ADAPTER}), which is not supported: merge it into the weights"
        )
    pickled = read_pickled(weights) if weights.kind == "pickle" else None
    config = _config(folder, list(pickled or {}))
    if getattr(config, "is_encoder_decoder", False):
        raise _encoder_decoder(config.model_type)
    architecture = detect(config, iterations=iterations)
    config.transformers_weights = None  # the config must not choose the file to read
    shapes = shapes_in(weights) if pickled is None else {name: tuple(value.shape) for name, value in pickled.items()}
    check_sizes(config, shapes, architecture.shared_block)
    if pickled is None:
        model, info = transformers.AutoModel.from_pretrained(
            folder, config=config, use_safetensors=True, local_files_only=True, trust_remote_code=False,
            dtype=torch.float32, output_loading_info=True, attn_implementation="eager",
        )  # fmt: skip
        missing, unused = list(info["missing_keys"]), list(info["unexpected_keys"])
    else:
        message = f"{weights.files[0].name} is a pickle: read by torch's restricted reader (weights_only=True), which runs no code"
        warnings.warn(message, stacklevel=5)
        notes.append(message)
        model = transformers.AutoModel.from_config(
            config, dtype=torch.float32, trust_remote_code=False, attn_implementation="eager"
        )
        missing, unused = _fill(model, pickled)
    check_whole(unused, model.state_dict())
    missing = [name for name in missing if "pooler" not in name and "position_ids" not in name]
    if missing:
        raise ValueError(
            f"model: {folder} lacks the weights {missing[0]} and {len(missing) - 1} more: are its files from another model?"
        )
    return _ready(source, model, _tokenizer(folder, notes), architecture, notes)


def _fill(model: Any, state: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Load weights into a model; return the missing and the unexpected ones."""
    prefix = model.base_model_prefix + "."
    plain = {
        name.removeprefix(prefix).replace(".gamma", ".weight").replace(".beta", ".bias"): value
        for name, value in state.items()
    }
    wanted = model.state_dict()
    wrong = [name for name, value in plain.items() if name in wanted and value.shape != wanted[name].shape]
    if wrong:
        name = wrong[0]
        raise ValueError(
            f"model: {name} has shape {tuple(plain[name].shape)}, its config says {tuple(wanted[name].shape)}: from another model?"
        )
    filled = model.load_state_dict({k: v for k, v in plain.items() if k in wanted}, strict=False)
    return list(filled.missing_keys), [name for name in plain if name not in wanted]


def _from_gguf(source: str, weights: Any, iterations: int | None) -> Loaded:
    need("gguf", "accelerate")
    torch, transformers = need("torch"), need("transformers")
    file = weights.files[0]
    where = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    options = {"dtype": torch.float32, "attn_implementation": "eager", **where}
    with one_gguf_reader():
        quantized = weights.quantization()
        config = transformers.AutoConfig.from_pretrained(file.parent, **where)
        check_sizes(config, shapes_in(weights), detect(config).shared_block)
        model = transformers.AutoModel.from_pretrained(file.parent, **options)
        architecture = detect(model.config, quantized=quantized, iterations=iterations)
        tokenizer = HubTokenizer(transformers.AutoTokenizer.from_pretrained(file.parent, **where))
    notes = [
        f"most weights were stored in {stored_text(quantized)} of GGUF: they are quantized, and all numbers are those of the "
        "rounded weights"
    ]
    return _ready(source, model, tokenizer, architecture, notes)


def _tokenizer(folder: Path, notes: list[str]) -> Tokenizer:
    vocabulary = folder / "vocab.txt"
    if not (folder / "tokenizer.json").exists() and vocabulary.exists() and is_smiles_vocabulary(vocabulary):
        notes.append(
            "the vocabulary is one of reaction SMILES: texts are cut by the pattern of Schwaller et al. (2018)"
        )
        return SmilesTokenizer(vocabulary)
    if not any((folder / name).exists() for name in TOKENIZERS):
        raise ValueError(f"model: {folder} has no tokenizer: expected one of {', '.join(TOKENIZERS)}")
    transformers = need("transformers")
    return HubTokenizer(
        transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    )


def _ready(source: str, model: Any, tokenizer: Tokenizer, architecture: Architecture, notes: list[str]) -> Loaded:
    model = model.eval().requires_grad_(False)
    model.config.use_cache = False
    if architecture.reason:
        notes.append(architecture.reason)
    family = family_of(model.config) if architecture.supported else None
    return Loaded(source, model, tokenizer, architecture, family, tuple(notes))
