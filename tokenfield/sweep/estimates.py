"""What a plan will take: cells, batches, numbers on disk and in memory, time."""

import math
import os
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from .batches import Batch, batches
from .cells import Cells
from .plan import Plan
from .run_batch import check_seeds, run_cells

TEXT = 80  # bytes for id and error of a cell
CONFIG = 5200  # bytes for the configs of a point, which the engine has too
SHARE = 0.5  # of the memory that is free


class Estimate(NamedTuple):
    """Counts and sizes; `seconds` is for one core, from a first short part of one batch of each shape."""

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
    """Sizes of a plan; with `timed`, one batch of each shape is run twice, to a twentieth of its time."""
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
    """Batches of one shape, from a run of the middle one to a short time; its first go compiles."""
    batch = group[len(group) // 2]
    members, part = [cells[k] for k in batch.cells], 1.0
    config = members[0].config
    follows = config.noise is not None and config.dt is None  # its step follows from t1
    if config.t1 is not None and math.isfinite(config.t1) and not follows:
        part = 0.05
        short = {"t1": part * config.t1}
        members = [cell._replace(config=cell.config.model_copy(update=short)) for cell in members]
    bare = plan.model_copy(
        update={"record": {name: q.model_copy(update={"times": None}) for name, q in plan.record.items()}}
    )
    taken = 0.0
    for _ in range(2):
        begun = time.perf_counter()
        run_cells(bare, members, batch.size, batch.width)
        taken = time.perf_counter() - begun
    return taken / part * len(group)
