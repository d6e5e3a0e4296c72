"""Finished batches on disk: one file for each batch, written atomically."""

from pathlib import Path

import numpy as np

from .._files import remove
from ..driver.checkpoint import CheckpointError, read, write

FOLDER = "probe.part"  # while it exists, a probe is not finished


class Store:
    """Batches of one model on disk, so that a killed run can be continued; does nothing if folder is None.

    Args:
        folder: where to store them.
        name: name of the model, if there are several, e.g. "null".
        identity: fingerprint of weights, texts and settings; files of another run are refused.
    """

    def __init__(self, folder: Path | None, name: str, identity: str):
        self.folder = None if folder is None else Path(folder) / FOLDER
        self.name, self.identity = name, identity
        if self.folder is not None and self.folder.is_symlink():
            remove(self.folder)  # do not write to the target of a link

    def read(self, number: int) -> dict[str, np.ndarray] | None:
        """Return the arrays of a batch, or None if it was not finished."""
        path = self._path(number)
        if path is None or not path.exists():
            return None
        try:
            _, leaves = read(path, self.identity)
        except CheckpointError as error:
            raise CheckpointError(
                str(error).replace("(model, state, times, tolerances or versions differ)", "")
            ) from None
        names = [str(name) for name in leaves[0]]
        return dict(zip(names, leaves[1:], strict=True))

    def write(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Write the arrays of a batch."""
        path = self._path(number)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, self.identity, number, [np.array(list(arrays)), *arrays.values()])

    def _path(self, number: int) -> Path | None:
        return None if self.folder is None else self.folder / f"{self.name}-{number:05d}.npz"

    def clear(self) -> None:
        """Remove all batches, once the run is finished."""
        if self.folder is not None:
            remove(self.folder)
