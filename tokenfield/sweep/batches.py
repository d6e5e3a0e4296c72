"""Group the cells of a sweep into batches: cells of equal shape, in the order of the grid, in batches of one size.

The batches depend on the plan alone. Bits can depend on the shape of a batch, so the same plan gives the same bits with any
engine, in any order, and after any interruption.
"""

import json
import math
from typing import Any, NamedTuple

from ..attention import Softmax, Unnormalized
from ..config.run import RunConfig
from ..normalization import PostLN
from .cells import Cells

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


def batches(cells: Cells) -> list[Batch]:
    """Return all batches of a plan."""
    groups: dict[str, list[int]] = {}
    repeats = range(cells.plan.repeats)
    for point, config in enumerate(cells.configs):
        kind = _kind(config) + ("coarsened" if _coarsens(cells, config) else "")
        groups.setdefault(kind, []).extend(point * len(repeats) + r for r in repeats)
    return [batch for members in groups.values() for batch in _cut(members, *size_and_width(cells, members[0]))]


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
    """Return the numbers that may differ within a batch. The step of a run with noise follows from the model
    unless it is given, and the rule energy-settled takes beta from it. No run may depend on its neighbors in the grid."""
    if config.noise is not None and config.dt is None:
        return {"noise": {"seed"}, "tokens": FREE["tokens"]}
    if config.stop_when is not None and "energy" in config.stop_when:
        return FREE | {"attention": {"V"}}
    return FREE


def _alone(config: RunConfig) -> bool:
    """Return True for runs that are run one by one: layers, coarsening, a fixed step without noise, or a step that depends on
    the start."""
    if config.state is not None:
        return True
    if config.noise is not None:
        return config.dt is None and config.norm.made_by is not PostLN
    plain = config.depth is None and config.dt is None and config.merge_tolerance is None and config.t1 != math.inf
    return not plain or config.method == "coarsen"


def _coarsens(cells: Cells, config: RunConfig) -> bool:
    """Return True for runs that `simulate` would coarsen by default: a cell gives the same numbers alone and in any batch."""
    asked = config.stop_when is not None or config.method is not None or _alone(config)
    could = config.norm.made_by is PostLN and config.attention.made_by in (Softmax, Unnormalized)
    if asked or config.noise is not None or not could or cells.plan.state == "equiangular":
        return False
    from ..config import build
    from ..driver.choice import coarsens

    try:
        assert config.t1 is not None
        return coarsens(build.model(config), config.t1)
    except Exception:  # running the cell will report the error
        return False


def size_and_width(cells: Cells, first: int) -> tuple[int, int]:
    """Return the size and the width of batches for cells like this one."""
    config = cells.configs[first // cells.plan.repeats]
    if _alone(config) or _coarsens(cells, config):
        return 1, 1
    n = 16 if cells.plan.state == "equiangular" else config.tokens.n
    width = AT_ONCE // n**2
    width = 1 if width < SMALLEST else min(width, LARGEST)
    if cells.plan.batch is not None:
        return cells.plan.batch, min(width, cells.plan.batch)
    if width == 1 or config.noise is not None:
        return width, width
    return max(width, min(MOST, IN_A_BATCH // n**2)), width


def _cut(members: list[int], size: int, width: int) -> list[Batch]:
    """Return batches of cells, as equal in size as possible, so that few cells are run twice."""
    count = -(-len(members) // size)
    size = -(-len(members) // count)
    return [Batch(tuple(members[k : k + size]), size, min(width, size)) for k in range(0, len(members), size)]
