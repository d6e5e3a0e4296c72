"""Run one batch of cells: from their configs to the recorded numbers."""

import functools
from typing import Any

from .._jax import in_double
from .._xla import one_thread_process
from .batches import Batch, batches, in_one_thread
from .built import built
from .cells import Cell, Cells, is_random
from .one_by_one import follow, noisy
from .outcome import Outcome
from .plan import Plan
from .side_by_side import side_by_side

LONGEST_ERROR = 400


@functools.lru_cache(maxsize=4)
def prepared(plan: str) -> tuple[Cells, list[Batch]]:
    """Return the cells and batches of a plan given as JSON, computed once in each process."""
    cells = Cells(Plan.model_validate_json(plan))
    return cells, batches(cells)


@in_double
def run_batch(plan: str, number: int) -> list[Outcome]:
    """Return the outcomes of one batch of a plan given as JSON; called by every engine."""
    cells, all_batches = prepared(plan)
    batch = all_batches[number]
    return run_cells(cells.plan, [cells[k] for k in batch.cells], batch.size, batch.width)


def worker_environment(plan: str) -> dict[str, str]:
    """Return the environment variables to set before a process runs batches of a plan.

    The bits of single large runs may depend on the number of threads, so it is not changed for them. If all runs are small and
    batched, in programs of one thread, a process gets one thread.
    """
    return one_thread_process() if in_one_thread(*prepared(plan)) else {}


def run_cells(plan: Plan, cells: list[Cell], size: int, width: int) -> list[Outcome]:
    """Run cells side by side. If that fails, run each half alone, in a batch of the same shape: one bad cell is found after a
    few attempts, and the others have the same bits as without it."""
    try:
        pairs = _build(plan, cells)
        bad = [isinstance(pair, Exception) for pair in pairs]
        if any(bad):
            good = iter(
                run_cells(plan, [cell for cell, is_bad in zip(cells, bad, strict=True) if not is_bad], size, width)
                if not all(bad)
                else ()
            )
            return [_failed(pair) if is_bad else next(good) for pair, is_bad in zip(pairs, bad, strict=True)]
        padded = [*cells, *[cells[-1]] * (size - len(cells))]
        models, states = zip(*pairs, *[pairs[-1]] * (size - len(cells)), strict=True)
        return _run(plan, padded, list(models), list(states), width)[: len(cells)]
    except Exception as error:
        if len(cells) == 1:
            return [_failed(error)]
        middle = len(cells) // 2
        return run_cells(plan, cells[:middle], size, width) + run_cells(plan, cells[middle:], size, width)


def _failed(error: Any) -> Outcome:
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return Outcome({}, float("nan"), text[:LONGEST_ERROR])


def _build(plan: Plan, cells: list[Cell]) -> list[Any]:
    """Return a model and a state for each cell, or the error that building them raised; repeats of a point share one model."""
    firsts: dict[int, tuple[Any, Any]] = {}

    def one(cell: Cell) -> Any:
        pair = built(plan, cell, firsts.get(id(cell.config)))
        if not isinstance(pair, Exception):
            firsts.setdefault(id(cell.config), pair)
        return pair

    return [one(cell) for cell in cells]


def _run(plan: Plan, cells: list[Cell], models: list[Any], states: list[Any], width: int) -> list[Outcome]:
    config = cells[0].config
    if config.depth is not None or config.state is not None:
        return [follow(plan, cell, *pair) for cell, pair in zip(cells, zip(models, states, strict=True), strict=True)]
    if config.noise is not None:
        return noisy(plan, cells, models, states)
    if len(cells) == 1:
        return [follow(plan, cells[0], models[0], states[0])]
    return side_by_side(plan, config, models, states, width)


def check_seeds(plan: Plan, cells: Cells) -> None:
    """Raise ValueError for repeats of a run in which nothing is random: they would be equal."""
    if plan.repeats > 1 and not all(is_random(plan, config) for config in cells.configs):
        raise ValueError(
            f"repeats: {plan.repeats} repeats of a run in which nothing is random would be the same: use 1"
        )
