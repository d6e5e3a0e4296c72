"""The results of a sweep on disk: one Zarr dataset with named axes, laid out before the first run.

One process writes. Every file of a Zarr array is replaced in one atomic step, and a cell's status is written after its
numbers: whenever the sweep is killed, a cell that is marked as done is done.
"""

import itertools
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..results.provenance import provenance
from .batches import batches, in_one_thread
from .cells import Cells
from .outcome import Outcome
from .plan import Plan, differences
from .quantities import QUANTITIES

if TYPE_CHECKING:
    import xarray

PENDING, DONE, FAILED = 0, 1, 2
DATASET, PLAN = "sweep.zarr", "plan.json"
CHUNK = 1 << 15  # numbers in a file


class Store:
    """The dataset of a sweep in memory, and in a folder if there is one."""

    def __init__(self, plan: Plan, cells: Cells, folder: Path | None, dataset: "xarray.Dataset"):
        self.plan, self.cells, self.folder, self.dataset = plan, cells, folder, dataset
        self.arrays = {str(name): np.array(variable.values) for name, variable in dataset.data_vars.items()}
        self.group: Any = None
        if folder is not None:
            import zarr

            self.group = zarr.open_group(folder / DATASET, mode="r+")

    @property
    def status(self) -> np.ndarray:
        """The status of every cell, in the order of the grid."""
        return self.arrays["status"].ravel()

    def put(self, numbers: tuple[int, ...], outcomes: list[Outcome]) -> None:
        """Keep the outcomes of those cells that wait for one: first all numbers, then that they are there."""
        waiting = [(k, outcome) for k, outcome in zip(numbers, outcomes, strict=True) if self.status[k] == PENDING]
        numbers, outcomes = tuple(k for k, _ in waiting), [outcome for _, outcome in waiting]
        places = [np.unravel_index(k, self.cells.shape) for k in numbers]
        for place, outcome in zip(places, outcomes, strict=True):
            for name, value in outcome.values.items():
                self.arrays[name][place] = value
            self.arrays["end_time"][place] = outcome.end_time
            self.arrays["error"][place] = outcome.error
            self.arrays["status"][place] = FAILED if outcome.error else DONE
        for name in [*self.plan.record, "end_time", "error", "status"]:
            self._write(name, places)

    def _write(self, name: str, places: list[tuple[Any, ...]]) -> None:
        """The files that hold some places."""
        if self.group is None:
            return
        array, values = self.group[name], self.arrays[name]
        touched = {tuple(int(i) // size for i, size in zip(place, array.chunks, strict=False)) for place in places}
        for block in sorted(touched):
            where = tuple(slice(b * size, (b + 1) * size) for b, size in zip(block, array.chunks, strict=False))
            array[where] = values[where]

    def result(self) -> "xarray.Dataset":
        """The dataset as it stands."""
        return self.dataset.assign({name: self.dataset[name].copy(data=values) for name, values in self.arrays.items()})


def layout(plan: Plan, cells: Cells) -> "xarray.Dataset":
    """The empty dataset: axes, repeats and times with their coordinates, ids and seeds."""
    import xarray

    dims = [*plan.axes, "repeat"]
    coordinates: dict[str, Any] = {name: _labels(axis.expanded()) for name, axis in plan.axes.items()}
    coordinates["repeat"] = np.arange(plan.repeats)
    variables: dict[str, Any] = {}
    for name, quantity in plan.record.items():
        times = quantity.times
        extra = [] if times is None else [f"time_{name}"]
        shape = (*plan.shape, *([len(times.expanded())] if times is not None else []))
        if times is not None:
            coordinates[extra[0]] = np.asarray(times.expanded(), float)
        variables[name] = ([*dims, *extra], np.full(shape, np.nan), {"long_name": label(plan, name)})
    variables["end_time"] = (dims, np.full(plan.shape, np.nan), {"long_name": "time at which the run ended"})
    variables["status"] = (dims, np.zeros(plan.shape, np.int8), {"flag_meanings": "pending done failed"})
    variables["error"] = (dims, np.full(plan.shape, "", dtype="T"))
    variables["id"] = (dims, np.array(cells.ids(), dtype="T").reshape(plan.shape))
    variables["seed_used"] = (dims, np.array(cells.seeds(), np.int64).reshape(plan.shape))
    attributes = {**what_fixes_bits(cells), "plan": plan.model_dump_json(exclude_none=True)}
    return xarray.Dataset(variables, coordinates, attributes)


def what_fixes_bits(cells: Cells) -> dict[str, Any]:
    """Versions, and the number of threads where that makes a difference."""
    small = in_one_thread(cells, batches(cells))
    return {key: value for key, value in provenance().items() if key != "threads" or not small}


def label(plan: Plan, name: str) -> str:
    """What a recorded quantity is, in words."""
    quantity = plan.record[name]
    if quantity.observable is None:
        return f"time of {str(quantity.event).replace('_', ' ').replace('-', ' ')}"
    table = QUANTITIES[quantity.observable]
    return table.label.format(threshold=0.999 if quantity.threshold is None else quantity.threshold)


def _labels(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype="T") if any(isinstance(value, str) for value in values) else np.array(values)


def create(plan: Plan, cells: Cells, folder: Path | None) -> Store:
    """A new store, laid out in its folder."""
    dataset = layout(plan, cells)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        old, part = folder / f"{DATASET}.old", folder / f"{DATASET}.part"
        shutil.rmtree(part, ignore_errors=True)
        encoding = {str(name): {"chunks": chunks(variable.shape)} for name, variable in dataset.data_vars.items()}
        try:
            dataset.to_zarr(part, mode="w", consolidated=False, zarr_format=3, encoding=encoding)
        except BaseException:
            _remove(part)
            raise
        if (folder / DATASET).exists():
            shutil.rmtree(old, ignore_errors=True)
            (folder / DATASET).rename(old)
        (folder / PLAN).write_text(plan.model_dump_json(indent=1, exclude_none=True), encoding="utf-8")
        part.rename(folder / DATASET)  # the folder holds a sweep only when its layout is whole
        shutil.rmtree(old, ignore_errors=True)
    return Store(plan, cells, folder, dataset)


def _remove(folder: Path) -> None:
    """Remove a folder into which Zarr's threads may still be writing for a moment."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)
        if not folder.exists():
            return


def chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last axes whole and the first ones singly, such that a file is small and rarely rewritten."""
    whole = list(itertools.accumulate(reversed(shape), lambda a, b: a * b))[::-1]
    return tuple(
        size if rest <= CHUNK else max(1, CHUNK // (rest // size)) for size, rest in zip(shape, whole, strict=True)
    )


def open_store(plan: Plan, cells: Cells, folder: Path, retry: bool = True) -> Store:
    """The store of the same plan; a ValueError that shows the difference for another one's."""
    old = read_plan_of(folder)
    changes = differences(old.canonical(), plan.canonical())
    if changes:
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise ValueError(
            f"--out: {folder} holds another plan: {'; '.join(changes[:5])}{more}. Give another folder, or --overwrite"
        )
    dataset = open_dataset(folder)
    here = what_fixes_bits(cells)
    other = [
        f"{key} {dataset.attrs.get(key)} → {value}" for key, value in here.items() if dataset.attrs.get(key) != value
    ]
    if other:
        what, cure = "versions", "give another folder"
        if other[0].startswith("threads "):
            what, cure = "threads", f"set NPROC={dataset.attrs['threads']}, or give another folder"
        raise ValueError(
            f"--out: {folder} was made with other {what} ({', '.join(other)}), so bits would differ: {cure}"
        )
    if (dataset["id"].values.ravel() != np.array(cells.ids(), dtype="T")).any():
        raise ValueError(
            f"--out: {folder} was made from other tokens: a file that the plan names has changed. Give another folder, or "
            "--overwrite"
        )
    if retry:
        failed = dataset["status"].values == FAILED
        for name, again in (("status", PENDING), ("error", "")):
            dataset[name].values[failed] = again
    return Store(plan, cells, folder, dataset)


def holds_sweep(folder: Path) -> bool:
    """True when a folder holds a sweep."""
    return (folder / DATASET).is_dir() and (folder / PLAN).is_file()


def read_plan_of(folder: Path) -> Plan:
    """The plan of the sweep in a folder."""
    if not holds_sweep(folder):
        raise ValueError(f"{folder} holds no sweep")
    try:
        return Plan.model_validate(json.loads((folder / PLAN).read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{folder / PLAN} cannot be read: {error}") from None


def open_dataset(folder: Path) -> "xarray.Dataset":
    """The dataset of the sweep in a folder, in memory."""
    import xarray

    if not holds_sweep(folder):
        raise ValueError(f"{folder} holds no sweep")
    try:
        with xarray.open_zarr(folder / DATASET, consolidated=False, chunks=None) as dataset:
            return dataset.load()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{folder / DATASET} cannot be read, it is damaged: {error}") from None
