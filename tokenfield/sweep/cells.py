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
from .plan import Plan, Recorded, Value

FORMAT = 1  # of what the cells of a plan compute; a change makes new ids


class Cell(NamedTuple):
    """One run: its config and its seed."""

    config: RunConfig
    seed: int


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
        return Cell(config, _seed(self.plan, self.names, values, repeat))

    def ids(self) -> list[str]:
        """For each cell a hash of all that fixes its numbers."""
        kept = {
            name: quantity.model_dump(mode="json") | _observed(quantity) for name, quantity in self.plan.record.items()
        }
        every = zip(np.repeat(np.arange(len(self.points)), self.plan.repeats), self.seeds(), strict=True)
        configs = [config.model_dump(mode="json") | _files(config) for config in self.configs]
        return [_digest(FORMAT, self.plan.state, configs[point], seed, kept).hex()[:16] for point, seed in every]

    def seeds(self) -> list[int]:
        """For each cell its seed."""
        return [self[k].seed for k in range(len(self))]


def _files(config: RunConfig) -> dict[str, str]:
    """What the files that a config names hold: arrays, and modules with classes and functions of a user's own."""
    return {each: content for each in _texts(config.model_dump(mode="json")) if (content := _content(each))}


def _observed(quantity: Recorded) -> dict[str, str]:
    content = _content(quantity.observable or "")
    return {} if content is None else {"contents": content}


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, (dict, list)):
        for each in data.values() if isinstance(data, dict) else data:
            yield from _texts(each)


def _content(text: str) -> str | None:
    """The hash of the file that a text stands for; None if there is none."""
    path = path_of(text) if is_array_file(text) else source_of(text)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None


def is_random(plan: Plan, config: RunConfig) -> bool:
    """True when a seed makes a difference."""
    if config.state is not None:
        return config.state.random or config.noise is not None
    return (plan.state == "tokens" and config.tokens.random) or config.noise is not None


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def _seed(plan: Plan, names: list[str], values: tuple[Value, ...], repeat: int) -> int:
    """From the plan's seed and the cell's place: it does not change when an axis gets more values."""
    where = dict(zip(names, values, strict=True)) if plan.seeds == "independent" else {}
    return int.from_bytes(_digest(plan.seed, where, repeat)[:6], "big")
