"""Checkpoints: the exact state of a run, bit for bit, in a plain .npz file without pickles."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._files import replacing

ARRAY = "array"  # key of an array's index in the JSON data


class CheckpointError(ValueError):
    """A checkpoint that cannot be used."""


def write(path: Path, identity: str, segment: Any, carry: Any) -> None:
    """Write a checkpoint atomically: an older one stays intact until the new one replaces it."""
    header = json.dumps({"format": 1, "identity": identity, "segment": segment})
    arrays: dict[str, Any] = {f"leaf{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(carry))}
    arrays["header"] = np.array(header)
    with replacing(path) as part, open(part, "xb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())


def read(path: Path, identity: str) -> tuple[Any, list[np.ndarray]]:
    """Return the segment (any JSON data) and the leaves of a checkpoint; raise CheckpointError if it is from another run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if damaged := file.zip.testzip():  # NumPy may stop reading before the checksum
                raise ValueError(f"{damaged} does not match its checksum")
            header = json.loads(str(file["header"]))
            leaves = [file[f"leaf{k}"] for k in range(len(file.files) - 1)]
            identity_found, segment = header["identity"], header["segment"]
    except Exception as error:  # a damaged archive can raise almost any error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"checkpoint {path} cannot be read ({reason}): delete it to start again") from error
    if identity_found != identity:
        raise CheckpointError(
            f"checkpoint {path} belongs to another run (model, state, times, tolerances or versions differ): "
            "give another path, or delete it to start again"
        )
    return segment, leaves


class Checkpoint(NamedTuple):
    """The data of a schedule, and the leaves of its last record."""

    schedule: Any
    leaves: list[np.ndarray]

    def fill(self, record: Any) -> Any:
        """Return a copy of a record with the numbers of the checkpoint."""
        return jax.tree.unflatten(jax.tree.structure(record), [jnp.asarray(leaf) for leaf in self.leaves])


class Checkpointer:
    """Read the checkpoint of a run at the start; write it regularly, and when the run is interrupted.

    Args:
        path: the file; None for no checkpoint.
        identity: the fingerprint of the run.
        every: seconds between two writes.
    """

    def __init__(self, path: Path | None, identity: Callable[[], str], every: float):
        self.path, self.every = path, every
        self.identity = "" if path is None else identity()
        self.written = time.monotonic()

    def read(self) -> Checkpoint | None:
        """Return the checkpoint to resume from, or None to start from the beginning."""
        if self.path is None or not self.path.exists():
            return None
        (schedule, arrays), leaves = read(self.path, self.identity)
        return Checkpoint(_joined(schedule, leaves[:arrays]), leaves[arrays:])

    def write(self, schedule: Any, record: Any) -> None:
        """Write the checkpoint now: the state of a schedule (nested lists and dicts) and the record of its stage (a pytree)."""
        if self.path is not None:
            arrays: list[np.ndarray] = []
            plain = _separated(schedule, arrays)
            write(self.path, self.identity, [plain, len(arrays)], [*arrays, *jax.tree.leaves(record)])
            self.written = time.monotonic()

    def due(self) -> bool:
        """Return True if it is time to write."""
        return self.path is not None and time.monotonic() - self.written > self.every


def _separated(tree: Any, arrays: list[np.ndarray]) -> Any:
    """Return nested lists and dicts as JSON data; arrays are appended to `arrays` and replaced by their index."""
    match tree:
        case dict():
            return {name: _separated(value, arrays) for name, value in tree.items()}
        case list() | tuple():
            return [_separated(value, arrays) for value in tree]
        case np.ndarray() | jax.Array():
            arrays.append(np.asarray(tree))
            return {ARRAY: len(arrays) - 1}
    return tree


def _joined(plain: Any, arrays: list[np.ndarray]) -> Any:
    """Undo `_separated`; tuples come back as lists."""
    match plain:
        case dict() if ARRAY in plain:
            return arrays[plain[ARRAY]]
        case dict():
            return {name: _joined(value, arrays) for name, value in plain.items()}
        case list():
            return [_joined(value, arrays) for value in plain]
    return plain
