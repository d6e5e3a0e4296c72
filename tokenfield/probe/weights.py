"""Files of weights: find them, and read pickled ones."""

import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from .._check import as_path
from .extra import need
from .packages import FETCH, MODELS, model_path


class Weights(NamedTuple):
    """The files of a model's weights, of kind "safetensors", "gguf" or "pickle"."""

    kind: str
    files: tuple[Path, ...]

    def quantization(self) -> str:
        """Return the format in which most numbers of a GGUF file are stored, e.g. "Q4_1"."""
        reader = need("gguf").GGUFReader(str(self.files[0]))
        sizes: Counter[str] = Counter()
        for tensor in reader.tensors:
            sizes[tensor.tensor_type.name] += int(tensor.n_elements)
        return sizes.most_common(1)[0][0]


def source_folder(source: str | os.PathLike) -> Path:
    """Return the folder or GGUF file that `source` names, a model of `make models`, or the cached snapshot of a hub name."""
    path = as_path("model", os.path.expanduser(source))  # "~" stays as it is if there is no home folder
    if path.exists():
        return path
    name = str(source)
    if name in MODELS:
        return model_path(name)
    if name.count("/") > 1 or name.startswith((".", "/", "~")) or not name.strip():
        raise ValueError(f"model: there is no folder or file {name}")
    hub = need("huggingface_hub")
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except Exception:
        raise ValueError(
            f"model: {name} is neither a folder here nor a model in the local cache; nothing is downloaded: get it first, "
            f"or use one of {', '.join(MODELS)} ({FETCH})"
        ) from None


def weights_in(path: Path, allow_pickle: bool) -> Weights:
    """Return the weights of a model: safetensors before GGUF before pickles; raise ValueError if there are none."""
    if path.is_file():
        if path.suffix == ".gguf":
            return Weights("gguf", (path,))
        raise ValueError(f"model: {path} is a file: give a model folder or a .gguf file")
    gguf = sorted(path.glob("*.gguf"))
    if not (path / "config.json").exists():
        if len(gguf) == 1:
            return Weights("gguf", tuple(gguf))
        if gguf:
            raise ValueError(f"model: {path} holds {len(gguf)} GGUF files: give one of them, e.g. {gguf[0]}")
        raise ValueError(f"model: {path} is not a model folder: it has neither config.json nor a .gguf file")
    if any(path.glob("*.safetensors")) or (path / "model.safetensors.index.json").exists():
        from .tensors import safetensors_files

        return Weights("safetensors", tuple(safetensors_files(path)))
    if gguf:
        return Weights("gguf", (gguf[0],))
    pickles = sorted(path.glob("pytorch_model*.bin"))
    if not pickles:
        raise ValueError(f"model: {path} holds no weights: expected *.safetensors, *.gguf or pytorch_model.bin")
    if not allow_pickle:
        raise ValueError(
            f"model: {path} holds only {pickles[0].name}, a pickle, which may contain code: "
            "convert it to safetensors, or use --allow-pickle (allow_pickle=True) if you trust it"
        )
    return Weights("pickle", tuple(pickles))


def read_pickled(weights: Weights) -> dict[str, Any]:
    """Return the tensors of `.bin` files, read by torch's restricted reader, which refuses everything but tensors."""
    torch = need("torch")
    state: dict[str, Any] = {}
    for file in weights.files:
        try:
            state |= torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            # torch suggests reading the file in an unsafe way, which we never do.
            why = "" if "weights_only" in first else f": {first}"
            raise ValueError(
                f"model: {file} is damaged, or holds more than tensors, which is never read{why}"
            ) from None
    return {name: value.float() for name, value in state.items()}
