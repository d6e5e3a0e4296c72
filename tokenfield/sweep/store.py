"""The results of a sweep: one dataset with named axes, created before the first run.

One process writes. Every file of a Zarr array is replaced in one atomic step, and a cell's status is written after its
numbers: if the sweep is killed at any time, a cell that is marked as done is done.
"""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import replacing, write_text
from ..results.labels import with_labels
from ..results.provenance import provenance
from ..results.saved import UNSEALED, seal, with_checksums
from .batches import batches, in_one_thread
from .cells import Cells
from .outcome import Outcome
from .plan import Plan, differences
from .stored import DATASET, FORMAT, TEXTS, Damage, coordinates, lost_cells, plan_in, read, results

if TYPE_CHECKING:
    import xarray

PENDING, DONE, FAILED = 0, 1, 2
PLAN = "plan.json"  # for people; the plan that is used is in the dataset
LABELS = {
    "repeat": "repeat",
    "status": "status of the cell",
    "error": "error of a cell that failed",
    "id": "hash of the cell",
    "seed_used": "seed of the cell",
    "method_used": "method of the cell",
    "reductions_used": "reductions of the cell, separated by commas",
}
CHUNK = 1 << 15  # numbers in a file


class Store:
    """The dataset of a sweep in memory, and in a folder if there is one."""

    def __init__(self, plan: Plan, cells: Cells, folder: Path | None, dataset: "xarray.Dataset"):
        self.plan, self.cells, self.folder, self.dataset = plan, cells, folder, dataset
        self.arrays = {str(name): np.array(variable.values) for name, variable in dataset.data_vars.items()}
        self.group: Any = None
        if folder is not None:
            import zarr

            self.group = zarr.open_group(folder / DATASET, mode="r+", zarr_format=3)

    @property
    def status(self) -> np.ndarray:
        """The status of every cell, in the order of the grid."""
        return self.arrays["status"].ravel()

    def put(self, numbers: tuple[int, ...], outcomes: list[Outcome]) -> None:
        """Save the outcomes of pending cells: first all numbers, then their status."""
        pending = [(k, outcome) for k, outcome in zip(numbers, outcomes, strict=True) if self.status[k] == PENDING]
        numbers, outcomes = tuple(k for k, _ in pending), [outcome for _, outcome in pending]
        places = [np.unravel_index(k, self.cells.shape) for k in numbers]
        for place, outcome in zip(places, outcomes, strict=True):
            for name, value in outcome.values.items():
                self.arrays[name][place] = value
            self.arrays["end_time"][place] = outcome.end_time
            self.arrays["error"][place] = outcome.error
            self.arrays["method_used"][place] = outcome.method
            self.arrays["reductions_used"][place] = outcome.reductions
            self.arrays["status"][place] = FAILED if outcome.error else DONE
        for name in results(self.plan):
            self._write(name, places)

    def forget(self, damage: list[Damage]) -> None:
        """Mark the cells of damaged files as pending: first their status, then blank numbers and new files."""
        lost = lost_cells(self.cells.shape, damage)
        for name in reversed(results(self.plan)):
            self.arrays[name][lost] = PENDING if name == "status" else "" if name in TEXTS else np.nan
            for each in damage:
                if each.name == name:
                    each.file.unlink(missing_ok=True)
            self._write(name, [tuple(place) for place in np.argwhere(lost)])

    def _write(self, name: str, places: list[tuple[Any, ...]]) -> None:
        """Write the files that contain some cells."""
        if self.group is None:
            return
        array, values = self.group[name].with_config({"write_empty_chunks": True}), self.arrays[name]
        touched = {tuple(int(i) // size for i, size in zip(place, array.chunks, strict=False)) for place in places}
        for block in sorted(touched):
            where = tuple(slice(b * size, (b + 1) * size) for b, size in zip(block, array.chunks, strict=False))
            array[where] = values[where]

    def result(self) -> "xarray.Dataset":
        """Return the current dataset."""
        return self.dataset.assign({name: self.dataset[name].copy(data=values) for name, values in self.arrays.items()})


def layout(plan: Plan, cells: Cells) -> "xarray.Dataset":
    """Return the empty dataset: axes, repeats and times with their coordinates, ids and seeds."""
    import xarray

    dims = [*plan.axes, "repeat"]
    axes = coordinates(plan)
    variables: dict[str, Any] = {}
    for name in plan.record:
        extra = [f"time_{name}"] if f"time_{name}" in axes else []
        shape = (*plan.shape, *(len(axes[time]) for time in extra))
        variables[name] = (
            [*dims, *extra],
            np.full(shape, np.nan),
            {"long_name": label(plan, name), "units": unit(plan, name)},
        )
    variables["end_time"] = (dims, np.full(plan.shape, np.nan), {"long_name": "time at which the run ended"})
    variables["status"] = (dims, np.zeros(plan.shape, np.int8), {"flag_meanings": "pending done failed"})
    variables |= {name: (dims, np.full(plan.shape, "", dtype="T")) for name in TEXTS}
    variables["id"] = (dims, np.array(cells.ids(), dtype="T").reshape(plan.shape))
    variables["seed_used"] = (dims, np.array(cells.seeds(), np.int64).reshape(plan.shape))
    attributes = {**what_fixes_bits(cells), "plan": plan.model_dump_json(exclude_none=True)}
    return with_labels(xarray.Dataset(variables, axes, attributes), LABELS)


def what_fixes_bits(cells: Cells) -> dict[str, Any]:
    """Return versions, and the number of threads if it affects the bits."""
    small = in_one_thread(cells, batches(cells))
    return {key: value for key, value in provenance().items() if key != "threads" or not small}


def label(plan: Plan, name: str) -> str:
    """Return the long name of a recorded quantity."""
    quantity = plan.record[name]
    if quantity.observable is None:
        return f"time of {str(quantity.event).replace('_', ' ').replace('-', ' ')}"
    return quantity.text


def unit(plan: Plan, name: str) -> str:
    """Return the unit of a recorded quantity."""
    quantity = plan.record[name]
    return "1" if quantity.observable is None else quantity.labels.units


def create(plan: Plan, cells: Cells, folder: Path | None) -> Store:
    """Create a store in its folder; an older sweep is replaced when the new layout is complete."""
    dataset = layout(plan, cells)
    if folder is not None:
        encoding = with_checksums(dataset)
        for name, variable in dataset.data_vars.items():
            encoding[str(name)]["chunks"] = chunks(variable.shape)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / DATASET) as part:
            marked = dataset.assign_attrs(format=FORMAT, checksum=UNSEALED)
            marked.to_zarr(
                part, mode="w", consolidated=False, zarr_format=3, encoding=encoding, write_empty_chunks=True
            )
            seal(part, without=results(plan))
        write_text(folder / PLAN, plan.model_dump_json(indent=1, exclude_none=True))
    return Store(plan, cells, folder, dataset)


def chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunk sizes: whole last axes and single entries of the first ones, so that files are small and rarely rewritten."""
    whole = list(itertools.accumulate(reversed(shape), lambda a, b: a * b))[::-1]
    return tuple(
        size if rest <= CHUNK else max(1, CHUNK // (rest // size)) for size, rest in zip(shape, whole, strict=True)
    )


def open_store(plan: Plan, cells: Cells, folder: Path, retry: bool = True) -> tuple[Store, list[Damage]]:
    """Return the store of the same plan, and the damaged files in it; raise ValueError with the differences from another plan."""
    old = plan_in(folder)
    changes = differences(old.canonical(), plan.canonical())
    if changes:
        more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
        raise ValueError(
            f"--out: {folder} holds another plan: {'; '.join(changes[:5])}{more}. Give another folder, or --overwrite"
        )
    dataset, damage = read(folder)
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
            f"--out: {folder} was made from other data: a file that the plan names has changed, or an older tokenfield made it. "
            "Give another folder, or --overwrite"
        )
    if retry:
        failed = dataset["status"].values == FAILED
        for name, again in (("status", PENDING), ("error", "")):
            dataset[name].values[failed] = again
    return Store(plan, cells, folder, dataset), damage
