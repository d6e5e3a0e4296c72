"""What a plan will take: cells, batches, numbers on disk and in memory, time."""

import math
import os
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..config.run import RunConfig
from .batches import Batch, batches
from .cells import Cell, Cells
from .plan import Plan
from .run_batch import check_seeds, run_cells

TEXT = 80  # bytes for id and error of a cell
CONFIG = 5200  # bytes for the configs of a point, which the engine has too
SHARE = 0.5  # of the memory that is free
PARTS = 0.02, 0.1  # of the time of a batch, to see how long all of it would take


class Estimate(NamedTuple):
    """Counts and sizes; `seconds` is for one core, from first short parts of one batch of each shape."""

    cells: int
    batches: int
    shapes: int
    bytes: int
    memory: int
    seconds: float | None


def size_of(plan: Plan) -> int:
    """Bytes of the dataset."""
    numbers = sum(1 if q.times is None else len(q.times.expanded()) for q in plan.record.values())
    return plan.count * (8 * (numbers + 2) + 1 + TEXT)


def memory_of(plan: Plan) -> int:
    """Bytes in memory: the dataset as it is read and as it is filled, and the configs of all points."""
    return 2 * size_of(plan) + CONFIG * (plan.count // plan.repeats)


def refuse_too_large(plan: Plan, folder: Path | None) -> None:
    """Raise a ValueError for a dataset that does not fit in memory or on the disk."""
    size, memory, free = size_of(plan), memory_of(plan), _free_memory()
    if memory > SHARE * free:
        needs = f"{plan.count} cells need about {show(memory)} of memory, {show(free)} are free"
        raise ValueError(f"plan: {needs}: use fewer cells or times")
    if folder is not None:
        near = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        left = shutil.disk_usage(near).free
        if size > left:
            needs = f"{plan.count} cells need up to {show(size)} on disk, {show(left)} are free"
            raise ValueError(f"--out: {needs}: use fewer cells or times")


def _free_memory() -> float:
    """What programs can have, caches of files included where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def show(size: float) -> str:
    """Bytes in words."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def estimate(plan: Plan, timed: bool = True) -> Estimate:
    """Sizes of a plan; with `timed`, one batch of each shape is run to small parts of its time."""
    cells = Cells(plan)
    check_seeds(plan, cells)
    all_batches = batches(cells)
    groups: dict[Any, list[Batch]] = {}
    for batch in all_batches:
        config = cells[batch.cells[0]].config
        key = (
            config.tokens.n,
            config.tokens.d,
            config.attention.kind,
            config.norm.kind,
            config.t1,
            config.depth,
            batch.size,
        )
        groups.setdefault(key, []).append(batch)
    seconds = sum(_seconds(plan, cells, group) for group in groups.values()) if timed else None
    return Estimate(len(cells), len(all_batches), len(groups), size_of(plan), memory_of(plan), seconds)


def _seconds(plan: Plan, cells: Cells, group: list[Batch]) -> float:
    """Batches of one shape, from runs of the middle one to two short times: what does not grow with time is paid once."""
    batch = group[len(group) // 2]
    config = cells[batch.cells[0]].config
    follows = config.noise is not None and config.dt is None  # its step follows from t1
    if config.t1 is None or not math.isfinite(config.t1) or follows:
        _taken(plan, cells, batch, 1.0)  # compiles
        return _taken(plan, cells, batch, 1.0) * len(group)
    _taken(plan, cells, batch, PARTS[0])
    first, second = (_taken(plan, cells, batch, part) for part in PARTS)
    slope = max(second - first, 0.0) / (PARTS[1] - PARTS[0])
    return (first + slope * (1 - PARTS[0])) * len(group)


def _taken(plan: Plan, cells: Cells, batch: Batch, part: float) -> float:
    """Seconds for one batch to a part of its time."""
    members = [cells[k] for k in batch.cells]
    if part < 1:
        members = _shortened(members, part)
    bare = plan.model_copy(
        update={"record": {name: q.model_copy(update={"times": None}) for name, q in plan.record.items()}}
    )
    begun = time.perf_counter()
    run_cells(bare, members, batch.size, batch.width)
    return time.perf_counter() - begun


def _shortened(members: list[Cell], part: float) -> list[Cell]:
    """Repeats share their config, as before."""
    made: dict[int, RunConfig] = {}
    for cell in members:
        if id(cell.config) not in made:
            assert cell.config.t1 is not None
            made[id(cell.config)] = cell.config.model_copy(update={"t1": part * cell.config.t1})
    return [cell._replace(config=made[id(cell.config)]) for cell in members]
