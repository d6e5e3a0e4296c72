"""The cells of a sweep: one run each, with its own seed and an id made from its content."""

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._kinds import source_of
from ..config.array_file import is_array_file, path_of
from ..config.run import RunConfig
from .plan import Plan, Value

FORMAT = 3  # version of what the cells compute; a new version gives new ids


class Cell(NamedTuple):
    """One run: its config and its seed."""

    config: RunConfig
    seed: int


class Cells:
    """All cells of a plan, in the order of the grid.

    Example:
        >>> from tokenfield.sweep.cells import Cells
        >>> from tokenfield.sweep.plan import Plan
        >>> run = {"t1": 1.0, "tokens": {"n": 8, "d": 3}}
        >>> Cells(Plan(run=run, axes={"beta": [1.0, 2.0]}, repeats=3, record={"r": "order_parameter"}))[4].seed
        258506175918251
    """

    def __init__(self, plan: Plan):
        self.plan, self.names = plan, list(plan.axes)
        self.points, self.shape = plan.points(), plan.shape

    def __len__(self) -> int:
        return len(self.points) * self.plan.repeats

    @cached_property
    def configs(self) -> list[RunConfig]:
        """Return one config for each point of the grid: repeats differ only in their seeds."""
        return [self.plan.config(dict(zip(self.names, point, strict=True))) for point in self.points]

    def __getitem__(self, k: int) -> Cell:
        point, repeat = divmod(k, self.plan.repeats)
        config, values = self.configs[point], self.points[point]
        return Cell(config, _seed(self.plan, self.names, values, repeat))

    def ids(self) -> list[str]:
        """Return, for each cell, a hash of everything that determines its numbers."""
        contents = _Contents()
        recorded = contents.beside({name: each.model_dump(mode="json") for name, each in self.plan.record.items()})
        configs = [contents.beside(config.model_dump(mode="json")) for config in self.configs]
        every = zip(np.repeat(np.arange(len(self.points)), self.plan.repeats), self.seeds(), strict=True)
        return [_digest(FORMAT, self.plan.state, configs[point], seed, recorded).hex()[:16] for point, seed in every]

    def seeds(self) -> list[int]:
        """Return the seed of each cell."""
        return [self[k].seed for k in range(len(self))]


class _Contents(dict[str, str | None]):
    """Hashes of the files to which strings refer: arrays, and modules with a user's classes and functions."""

    def __missing__(self, text: str) -> str | None:
        path = path_of(text) if is_array_file(text) else source_of(text)
        self[text] = hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None
        return self[text]

    def beside(self, data: dict[str, Any]) -> list[Any]:
        """Return plain data with the hashes of the files that it names."""
        return [data, {each: content for each in _texts(data) if (content := self[each])}]


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, (dict, list)):
        for each in data.values() if isinstance(data, dict) else data:
            yield from _texts(each)


def is_random(plan: Plan, config: RunConfig) -> bool:
    """Return True if the seed affects the run."""
    if config.state is not None:
        return config.state.random or config.noise is not None
    return (plan.state == "tokens" and config.tokens.random) or config.noise is not None


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def _seed(plan: Plan, names: list[str], values: tuple[Value, ...], repeat: int) -> int:
    """Return a seed from the plan's seed and the cell's parameters: it does not change when an axis gets more values."""
    where = dict(zip(names, values, strict=True)) if plan.seeds == "independent" else {}
    return int.from_bytes(_digest(plan.seed, where, repeat)[:6], "big")
