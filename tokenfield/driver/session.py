"""What surrounds a run without changing its numbers: a progress bar and a checkpoint file."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .checkpoint import Checkpointer
from .progress import Progress


class Session(NamedTuple):
    """The progress bar and the checkpoint file of a run; by default it has neither.

    Args:
        progress: show a progress bar; None for "only on a terminal or in a notebook".
        checkpoint: path of the checkpoint file.
        every: seconds between two checkpoints.
    """

    progress: bool | None = False
    checkpoint: Path | None = None
    every: float = math.inf

    def bar(self, title: str, total: float, things: str = "") -> Progress:
        """Return the progress bar; see `Progress`."""
        return Progress(self.progress, title, total, things)

    def checkpointer(self, identity: Callable[[], str]) -> Checkpointer:
        """Return what reads and writes the checkpoint of the run with this fingerprint."""
        return Checkpointer(self.checkpoint, identity, self.every)

    def of_part(self, name: object) -> "Session":
        """Return the session of a part of the run, with a checkpoint file of its own beside that of the whole."""
        path = self.checkpoint
        return self if path is None else self._replace(checkpoint=path.with_name(f"{path.name}.{name}"))
