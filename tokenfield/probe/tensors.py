"""Read the tensor shapes of a model's files from their headers, and check that its config fits them."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._shown import shown
from .extra import need
from .weights import Weights

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
MOST_DEPTH = 10_000  # maximum number of times that one shared block is run
MOST_LABELS = 10**6  # transformers builds a table of the labels, although no head is read
PACKED = 16  # maximum number of quantized numbers per stored number
TIED = 2  # maximum number of matrices per stored matrix: one may be used twice
SMALL = 10**6  # numbers that may be missing in any model, such as a pooler
COUNTS = re.compile(r"^(n|num)_(\w+_)?(layers?|groups|blocks|stages)$|_layers$|^inner_group_num$")
Shape = tuple[int, ...]


def safetensors_files(folder: Path) -> list[Path]:
    """Return the files of weights that a model folder names: model.safetensors, or the parts that its index lists.

    A part must be a plain name such as model-00001-of-00002.safetensors of a file in the folder itself, or in the blobs of
    the local cache that its snapshots point to.
    """
    index = folder / INDEX
    if (folder / WHOLE).exists() or not index.exists():
        names = [WHOLE] if (folder / WHOLE).exists() else sorted(path.name for path in folder.glob("*.safetensors"))
    else:
        names = _listed(index)
    for name in names:
        if not name.endswith(".safetensors") or Path(name).name != name or "\\" in name:
            raise ValueError(
                f"model: {index} names {shown(name)}: its files must be plain names that end in .safetensors"
            )
        if not (folder / name).is_file():
            raise ValueError(f"model: {index} names {shown(name)}, which is not in the folder: is a file missing?")
        target = (folder / name).resolve()
        if target.parent not in (folder.resolve(), _blobs(folder)):
            raise ValueError(
                f"model: {folder / name} is a link to a file outside of the model's folder: copy the file instead"
            )
    return [folder / name for name in names]


def _listed(index: Path) -> list[str]:
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return sorted({str(name) for name in places.values()})
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        raise ValueError(f"model: {index} is damaged: it must hold a weight_map of names to files") from None


def _blobs(folder: Path) -> Path | None:
    """Return the folder of the files that a snapshot of the local cache links to; None for any other folder."""
    here = folder.resolve()
    return here.parent.parent / "blobs" if here.parent.name == "snapshots" else None


def shapes_in(weights: Weights) -> dict[str, Shape]:
    """Return the shapes of all tensors of a model's files; only headers are read."""
    if weights.kind == "gguf":
        reader = need("gguf").GGUFReader(str(weights.files[0]))
        return {tensor.name: tuple(int(size) for size in tensor.shape) for tensor in reader.tensors}
    open_file = need("safetensors").safe_open
    found: dict[str, Shape] = {}
    for path in weights.files:
        with open_file(path, framework="np") as tensors:
            found |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    return found


def check_counts(settings: Mapping[str, Any]) -> None:
    """Raise a ValueError if a config file asks for an unrealistic number of parts: its class would list them all."""
    for name, value in _counts(settings):
        if value > MOST_DEPTH:
            raise ValueError(f"model: {name} of its config must be at most {MOST_DEPTH}, got {shown(value)}")
    labels = settings.get("num_labels")
    if isinstance(labels, int) and labels > MOST_LABELS:
        raise ValueError(f"model: num_labels of its config must be at most {MOST_LABELS}, got {shown(labels)}")


def check_whole(unused: Iterable[str], used: Iterable[str]) -> None:
    """Raise a ValueError if weights hold a layer that the model made from the config does not have."""
    plain = lambda name: re.sub(r"\d+", "#", name)  # noqa: E731
    known = {plain(name) for name in used}
    left = sorted(name for name in unused if any(plain(name).endswith(each) and "#" in each for each in known))
    if left:
        raise ValueError(
            f"model: its weights hold {shown(left[0])}, which its config leaves out: are they from another model?"
        )


def check_sizes(config: Any, shapes: Mapping[str, Shape], shared: bool) -> None:
    """Raise a ValueError if a config describes a much larger model than its weights are.

    No model has more layers than tensors, except for a shared block, which is run up to 10,000 times. After this check, the
    model is built without memory, on torch's device "meta", and its numbers are counted.
    """
    torch, transformers = need("torch"), need("transformers")
    check_counts(config.to_dict())
    for name, value in _counts(config.to_dict()):
        if value > len(shapes) and not (shared and name == "num_hidden_layers"):
            raise ValueError(
                f"model: {name} of its config is {value}, but its weights are {len(shapes)} tensors: are they from another model?"
            )
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config, trust_remote_code=False, attn_implementation="eager")
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(math.prod(shape) for shape in shapes.values())
    packed = PACKED if getattr(config, "quantization_config", None) else 1
    if described > TIED * packed * stored + SMALL:
        raise ValueError(
            f"model: its config describes {described:.3g} numbers, but its weights hold {stored:.3g}: are they from another model?"
        )


def _counts(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the entries of a config, and of configs inside it, that say how many modules there are."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and name != "quantization_config":
            yield from _counts(value)
        elif isinstance(value, int) and COUNTS.search(name):
            yield name, value
