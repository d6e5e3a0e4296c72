"""Checkpoints: a run on disk, complete to the last bit, in a plain .npz without pickles."""

import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class CheckpointError(ValueError):
    """A checkpoint that cannot be used."""


def fingerprint(*trees: Any) -> str:
    """A hash of models, states and settings that is the same in every process."""
    digest = hashlib.sha256()
    for tree in trees:
        leaves, structure = jax.tree.flatten(tree)
        digest.update(str(structure).encode())
        for leaf in leaves:
            if hasattr(leaf, "dtype"):
                digest.update(f"{leaf.dtype}{leaf.shape}".encode() + np.asarray(leaf).tobytes())
            else:
                digest.update(getattr(leaf, "__qualname__", repr(leaf)).encode())
    return digest.hexdigest()


def write(path: Path, identity: str, segment: Any, carry: Any) -> None:
    """Put the run on disk in one atomic step: an older checkpoint stays whole until the new one is."""
    header = json.dumps({"format": 1, "identity": identity, "segment": segment})
    arrays: dict[str, Any] = {f"leaf{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(carry))}
    arrays["header"] = np.array(header)
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def read(path: Path, identity: str) -> tuple[Any, list[np.ndarray]]:
    """The segment (anything that JSON can hold) and the leaves of a checkpoint of the same run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            leaves = [file[f"leaf{k}"] for k in range(len(file.files) - 1)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise CheckpointError(f"checkpoint {path} cannot be read ({error}): delete it to start afresh") from error
    if header.get("identity") != identity:
        raise CheckpointError(
            f"checkpoint {path} belongs to another run (model, state, times or tolerances differ): "
            "give another path, or delete it to start afresh"
        )
    return header["segment"], leaves


def restore(carry: Any, leaves: list[np.ndarray]) -> Any:
    """A carry like `carry` with the leaves of a checkpoint."""
    structure = jax.tree.structure(carry)
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])


class Keeper:
    """The checkpoint of one run: read when the run begins, written now and then and when it is cut.

    Args:
        path: the file; None keeps nothing.
        identity: the fingerprint of the run.
        every: seconds between two writings.
    """

    def __init__(self, path: Path | None, identity: Callable[[], str], every: float):
        self.path, self.every = path, every
        self.identity = "" if path is None else identity()
        self.written = time.monotonic()

    def read(self) -> tuple[Any, list[np.ndarray]] | None:
        """Where the run was cut; None if it begins."""
        return None if self.path is None or not self.path.exists() else read(self.path, self.identity)

    def write(self, segment: Any, tree: Any) -> None:
        """Now."""
        if self.path is not None:
            write(self.path, self.identity, segment, tree)
            self.written = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to write."""
        return self.path is not None and time.monotonic() - self.written > self.every


NOWHERE = Keeper(None, str, math.inf)
