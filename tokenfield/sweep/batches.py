"""Group the cells of a sweep into batches: cells of equal shape, in the order of the grid, in batches of one size.

The batches depend on the plan alone. Bits can depend on the shape of a batch, so the same plan gives the same bits with any
engine, in any order, and after any interruption.
"""

import functools
import json
import math
from typing import Any, NamedTuple

from ..config.run import RunConfig
from .built import built
from .cells import Cells
from .plan import Plan

AT_ONCE = 1 << 17  # maximum number of pairs of tokens in memory at once
SMALLEST = 4
LARGEST = 16  # members side by side: the numbers of more would not fit in the cache
MOST, IN_A_BATCH = 512, 1 << 19  # cells and pairs of tokens per batch: many, as the last cells run alone
FREE = {"attention": {"beta", "V"}, "norm": {"alpha"}, "noise": {"kappa", "seed"}, "tokens": {"seed", "rho", "spread"}}
"""Numbers that members of one batch may differ in."""


class Batch(NamedTuple):
    """The cells that one program runs: `size` of them (if there are fewer, the last one is repeated), at most `width` at a
    time. When one ends, the next one starts."""

    cells: tuple[int, ...]
    size: int
    width: int


@functools.lru_cache(maxsize=1)
def batches(cells: Cells) -> list[Batch]:
    """Return all batches of a plan. The last result is stored, as every model is built to choose its method."""
    groups: dict[Any, list[int]] = {}
    repeats = range(cells.plan.repeats)
    for point, config in enumerate(cells.configs):
        kind = _kind(config), runs_alone(config) or _coarsens(cells, point)
        groups.setdefault(kind, []).extend(point * len(repeats) + r for r in repeats)
    found = ((members, alone) for (_, alone), members in groups.items())
    sizes = lambda first, alone: size_and_width(cells.plan, cells[first].config, alone)  # noqa: E731
    return [batch for members, alone in found for batch in _cut(members, *sizes(members[0], alone))]


def in_one_thread(cells: Cells, all_batches: list[Batch]) -> bool:
    """Return whether all runs are small and batched, in programs of one thread: then their bits do not depend on the number
    of threads of the process."""
    return all(config.noise is None for config in cells.configs) and all(batch.width > 1 for batch in all_batches)


def _kind(config: RunConfig) -> str:
    """Return the properties that members of a batch share."""
    data: dict[str, Any] = config.model_dump(mode="json")
    for section, free in _free(config).items():
        own = section != "tokens" and ":" in ((data[section] or {}).get("kind") or "")
        for key in () if own else free:  # nothing is known about a user's class
            if isinstance((data[section] or {}).get(key), float):
                data[section][key] = "a number"
    data["tokens"] |= {key: None for key in FREE["tokens"]}
    return json.dumps(data, sort_keys=True)


def _free(config: RunConfig) -> dict[str, set[str]]:
    """Return the numbers that may differ within a batch. With noise, runs whose steps differ would wait for the one with the
    smallest step; its default follows from the model. The rule energy-settled, which a batch shares, takes beta from it."""
    if config.noise is not None and config.dt is None:
        return {"noise": {"seed"}, "tokens": FREE["tokens"]}
    if config.stop_when is not None and "energy" in config.stop_when:
        return FREE | {"attention": {"V"}}
    return FREE


def runs_alone(config: RunConfig) -> bool:
    """Return True for runs that are run one by one: layers, a state other than tokens, a fixed step without noise, …"""
    if config.depth is not None or config.state is not None:
        return True
    controlled = config.dt is not None or config.merge_tolerance is not None or config.t1 == math.inf
    return controlled and config.noise is None


def _coarsens(cells: Cells, point: int) -> bool:
    """Return True for cells that `simulate` would coarsen: they run one by one."""
    from ..driver.choice import chosen_method

    cell = cells[point * cells.plan.repeats]
    pair = built(cells.plan, cell)
    if isinstance(pair, Exception):  # the cell fails with this error when it is run
        return False
    model, state = pair
    config = cell.config
    assert config.t1 is not None
    return chosen_method(config.method, state, model, config.t1, config.stop_when is not None) == "coarsen"


def size_and_width(plan: Plan, config: RunConfig, alone: bool) -> tuple[int, int]:
    """Return the size and the width of batches of cells with a config; `alone`: they run one by one."""
    n = 16 if plan.state == "equiangular" else config.tokens.n
    width = AT_ONCE // n**2
    width = 1 if width < SMALLEST else min(width, LARGEST)
    if alone or (width == 1 and config.noise is None):  # a large run is not faster in a batch, and may use a series
        return 1, 1
    if plan.batch is not None:
        return plan.batch, min(width, plan.batch)
    if config.noise is not None:
        return width, width
    return max(width, min(MOST, IN_A_BATCH // n**2)), width


def _cut(members: list[int], size: int, width: int) -> list[Batch]:
    """Return batches of cells, as equal in size as possible, so that few cells are run twice."""
    count = -(-len(members) // size)
    size = -(-len(members) // count)
    return [Batch(tuple(members[k : k + size]), size, min(width, size)) for k in range(0, len(members), size)]
