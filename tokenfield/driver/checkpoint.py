"""Checkpoints: the exact state of a run, bit for bit, in a plain .npz file without pickles."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._files import replacing


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
            header = json.loads(str(file["header"]))
            leaves = [file[f"leaf{k}"] for k in range(len(file.files) - 1)]
            identity_found, segment = header["identity"], header["segment"]
    except Exception as error:  # a damaged archive can raise almost any error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"checkpoint {path} cannot be read ({reason}): delete it to start afresh") from error
    if identity_found != identity:
        raise CheckpointError(
            f"checkpoint {path} belongs to another run (model, state, times, tolerances or versions differ): "
            "give another path, or delete it to start afresh"
        )
    return segment, leaves


def restore(carry: Any, leaves: list[np.ndarray]) -> Any:
    """Return a copy of `carry` with the leaves of a checkpoint."""
    structure = jax.tree.structure(carry)
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])


class Keeper:
    """The checkpoint of one run: read at the start, and written regularly and when the run is interrupted.

    Args:
        path: the file; None for no checkpoint.
        identity: the fingerprint of the run.
        every: seconds between two writes.
    """

    def __init__(self, path: Path | None, identity: Callable[[], str], every: float):
        self.path, self.every = path, every
        self.identity = "" if path is None else identity()
        self.written = time.monotonic()

    def read(self) -> tuple[Any, list[np.ndarray]] | None:
        """Return the checkpoint to resume from, or None to start from the beginning."""
        return None if self.path is None or not self.path.exists() else read(self.path, self.identity)

    def write(self, segment: Any, tree: Any) -> None:
        """Write the checkpoint now."""
        if self.path is not None:
            write(self.path, self.identity, segment, tree)
            self.written = time.monotonic()

    def due(self) -> bool:
        """Return True if it is time to write."""
        return self.path is not None and time.monotonic() - self.written > self.every


NOWHERE = Keeper(None, str, math.inf)
