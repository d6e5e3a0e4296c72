"""The cells of a sweep: one run each, with its own seed and an id made from its content."""

import hashlib
import json
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..config.run import RunConfig
from .plan import Plan, Value

FORMAT = 1  # of what the cells of a plan compute; a change makes new ids
RANDOM_STARTS = {"sphere", "gaussian", "hemisphere", "clusters"}


class Cell(NamedTuple):
    """One run: its place in the grid (repeats last), its config, its seed."""

    place: tuple[int, ...]
    config: RunConfig
    seed: int
    id: str


class Cells:
    """All cells of a plan, in the order of the grid.

    Example:
        >>> from tokenfield.sweep.plan import Plan
        >>> run = {"t1": 1.0, "tokens": {"n": 8, "d": 3}}
        >>> Cells(Plan(run=run, axes={"beta": [1.0, 2.0]}, repeats=3, record={"r": "order_parameter"}))[4].seed
    """

    def __init__(self, plan: Plan):
        self.plan, self.names = plan, list(plan.axes)
        self.points, self.shape = plan.points(), plan.shape

    def __len__(self) -> int:
        return len(self.points) * self.plan.repeats

    @cached_property
    def configs(self) -> list[RunConfig]:
        """One for each point of the grid: repeats differ by their seeds alone."""
        return [self.plan.config(dict(zip(self.names, point, strict=True))) for point in self.points]

    def __getitem__(self, k: int) -> Cell:
        point, repeat = divmod(k, self.plan.repeats)
        config, values = self.configs[point], self.points[point]
        seed = _seed(self.plan, self.names, values, repeat)
        place = tuple(int(i) for i in np.unravel_index(k, self.shape))
        return Cell(place, config, seed, _id(self.plan, config, seed))


def is_random(plan: Plan, config: RunConfig) -> bool:
    """True when a seed makes a difference."""
    start = plan.state == "tokens" and config.tokens.kind in RANDOM_STARTS
    return start or config.noise is not None


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def _seed(plan: Plan, names: list[str], values: tuple[Value, ...], repeat: int) -> int:
    """From the plan's seed and the cell's place: it does not change when an axis gets more values."""
    where = dict(zip(names, values, strict=True)) if plan.seeds == "independent" else {}
    return int.from_bytes(_digest(plan.seed, where, repeat)[:6], "big")


def _id(plan: Plan, config: RunConfig, seed: int) -> str:
    """A hash of all that fixes the cell's numbers."""
    kept = {name: quantity.model_dump(mode="json") for name, quantity in plan.record.items()}
    return _digest(FORMAT, plan.state, config.model_dump(mode="json"), seed, kept).hex()[:16]
