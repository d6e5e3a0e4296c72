"""Checkpoint of a run that merges clusters: the first collapse, then the stretches between merges."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .checkpoint import Keeper
from .coarsening import Epoch, Record, SoFar
from .collapse import Collapsing
from .merges import Merge


class Kept:
    """The state of such a run, written regularly and when the run is interrupted. Use it as `with Kept(keeper) as kept`."""

    def __init__(self, keeper: Keeper):
        self.keeper = keeper
        self.stands: list[Any] = [None, None]
        resumed = keeper.read()
        if resumed is not None:
            self.stands = _filled(*resumed)

    def __enter__(self) -> "Kept":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._write()

    @property
    def collapsing(self) -> tuple[Collapsing | None, Callable[[Collapsing], None]]:
        """Return the state from which the collapse resumes (None to start), and the callback that records its progress."""
        return self.stands[0], lambda so_far: self._keep(0, so_far)

    @property
    def following(self) -> tuple[SoFar | None, Callable[[SoFar], None]]:
        """Return the same for the stretches after the collapse."""
        return self.stands[1], lambda so_far: self._keep(1, so_far)

    def _keep(self, phase: int, so_far: Any) -> None:
        self.stands[phase] = so_far
        if self.keeper.due():
            self._write()

    def _write(self) -> None:
        if self.keeper.path is not None:
            self.keeper.write(_shape(self.stands), self.stands)


def _shape(stands: list[Any]) -> list[Any]:
    """Return the numbers of records, epochs and merges, which the arrays alone do not determine."""
    return [
        None if stand is None else [len(stand.records), len(stand.epochs), len(getattr(stand, "merges", []))]
        for stand in stands
    ]


def _filled(shape: list[Any], leaves: list[np.ndarray]) -> list[Any]:
    """Return the state of the run from its `_shape` and its arrays."""
    empty: list[Any] = [None, None]
    if shape[0] is not None:
        empty[0] = Collapsing([Record(0.0, 0, 0)] * shape[0][0], [Epoch(0, 0)] * shape[0][1], 0, 0.0, 0.0, 0, 0)  # type: ignore[arg-type]
    if shape[1] is not None:
        merges = [Merge(0.0, 0.0, (0, 0), (0, 0), (0, 0), 0)] * shape[1][2]  # type: ignore[arg-type]
        empty[1] = SoFar([Record(0.0, 0, 0)] * shape[1][0], [Epoch(0, 0)] * shape[1][1], merges, 0, 0)  # type: ignore[arg-type]
    plain = [leaf.item() if leaf.ndim == 0 else leaf for leaf in leaves]
    return jax.tree.unflatten(jax.tree.structure(empty), plain)
