"""Estimate the memory and disk space of a plan, and refuse a plan that is too large."""

import math
import shutil
from pathlib import Path
from typing import NamedTuple

from .._cost import PAIRS, SAVED, STAGES, STARTS, WHOLE
from .._memory import bytes_text, free_memory
from ..config.run import RunConfig
from .batches import runs_alone, size_and_width
from .cells import Cells
from .outcome import times_of
from .parameters import GAMMA, resolve
from .plan import Plan, Spaced
from .store import chunks

TEXT = 90  # bytes for the texts of a cell: id, error, method, reductions
CONFIG = 5200  # bytes for the configs of a point, with the copy in the engine
SHARE = 0.5  # fraction of the free memory that the dataset may take
BLOCK = 4096  # minimum bytes of a file or a folder

SMOOTH = {"attention.beta", "attention.V", "norm.alpha", "norm.tau", "noise.kappa", "tokens.rho", "tokens.spread"}
"""Parameters that do not change any size."""


def size_of(plan: Plan) -> int:
    """Return the bytes of the dataset."""
    numbers = sum(1 if q.times is None else len(q.times.expanded()) for q in plan.record.values())
    return plan.count * (8 * (numbers + 2) + 1 + TEXT)


def disk_of(plan: Plan) -> int:
    """Return the bytes of the dataset on disk, uncompressed: numbers, and the folders and files of each array."""
    series = [() if q.times is None else (len(q.times.expanded()),) for q in plan.record.values()]
    shapes = [
        *((*plan.shape, *extra) for extra in series),
        *[plan.shape] * 7,
    ]  # end, status, error, method, reductions, id, seed
    labels = len(plan.shape) + sum(map(len, series))  # arrays with a folder, a description, a folder and a file
    places = sum(map(_places, shapes)) + 4 * labels + 4  # the dataset's folder, its description (two blocks), the plan
    return size_of(plan) + BLOCK * places + 2 * len(plan.model_dump_json(exclude_none=True))


def _places(shape: tuple[int, ...]) -> int:
    """Return the number of files and folders of an array: a folder for each index of a chunk except the last, which is a file."""
    counts = [-(-size // chunk) for size, chunk in zip(shape, chunks(shape), strict=True)]
    return 3 + sum(math.prod(counts[: k + 1]) for k in range(len(counts)))


def memory_of(plan: Plan) -> int:
    """Return the bytes in memory: the dataset as it is read and as it is filled, and the configs of all points."""
    return 2 * size_of(plan) + CONFIG * (plan.count // plan.repeats)


class Held(NamedTuple):
    """The memory of a batch with a number of cells, and the shape of its tokens."""

    bytes: int
    cells: int
    n: int
    d: int


def held_by(plan: Plan, config: RunConfig, size: int, width: int) -> Held:
    """Return the memory of one batch: initial and final states of its cells, the stages of those that are running, pairs of
    tokens, and the states from which something is measured afterwards."""
    n, d = config.tokens.size
    inside = n * (min(n, d) if config.in_span else d)  # the flow lives in the span of its tokens
    whole = n if config.whole_matrix else min(n, WHOLE)
    state, pairs = n * d, PAIRS * whole**2
    if plan.state == "equiangular" or config.state is not None:
        state, inside, pairs = 4, 4, 0
    numbers = (
        size * STARTS * state
        + width * (STAGES * inside + pairs)
        + size * SAVED * _stored_states(plan, config, size) * inside
    )
    return Held(8 * numbers, size, n, d)


def _stored_states(plan: Plan, config: RunConfig, size: int) -> int:
    """Return the number of states of one cell that are stored until the end of its batch."""
    times = len(times_of(plan))
    if config.depth is not None:
        return config.depth + 1
    if config.noise is not None or size == 1:
        return times + 1
    later = any(q.times is not None and q.observable and not q.in_loop for q in plan.record.values())
    return times if later else 0


def largest(plan: Plan) -> Held:
    """Return the largest batch. Axes that do not change sizes are left out, so that this is fast."""
    fixed = {name: Spaced(values=axis.expanded()[:1]) for name, axis in plan.axes.items() if _smooth(name)}
    cells = Cells(plan.model_copy(update={"axes": {**plan.axes, **fixed}}))
    sizes = [size_and_width(plan, config, runs_alone(config)) for config in cells.configs]
    each = zip(cells.configs, sizes, strict=True)
    return max(held_by(plan, config, min(size, plan.count), min(width, plan.count)) for config, (size, width) in each)


def _smooth(name: str) -> bool:
    return name == GAMMA or resolve(name) in SMOOTH


def refuse_too_large(plan: Plan, folder: Path | None) -> None:
    """Raise a ValueError for a dataset or a batch that does not fit in memory, or a dataset that does not on the disk."""
    memory, free = memory_of(plan), free_memory()
    if memory > SHARE * free:
        needs = f"{plan.count} cells need about {bytes_text(memory)} of memory, {bytes_text(free)} are free"
        raise ValueError(f"plan: {needs}: use fewer cells or times")
    held = largest(plan)
    if held.bytes + memory > free:
        cells = "a run" if held.cells == 1 else f"a batch of {held.cells} runs"
        needs = f"{cells} with n = {held.n}, d = {held.d} needs about {bytes_text(held.bytes + memory)} of memory"
        hint = "use fewer tokens or times" if held.cells == 1 else "use fewer tokens or times, or a smaller batch"
        raise ValueError(f"plan: {needs}, {bytes_text(free)} are free: {hint}")
    if folder is not None:
        size = disk_of(plan)
        near = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        left = shutil.disk_usage(near).free
        if size > left:
            needs = f"{plan.count} cells need up to {bytes_text(size)} on disk, {bytes_text(left)} are free"
            raise ValueError(f"--out: {needs}: use fewer cells or times")
