"""Read and check the dataset of a sweep on disk; errors name missing and changed files.

Metadata, axes, ids and seeds do not change after the layout; a checksum of their files is in the metadata. Results do
change: each of their files has a checksum of its own (CRC-32C), and all files are there from the beginning.
"""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._files import current
from ..results.saved import attributes, checksum
from .plan import Plan

if TYPE_CHECKING:
    import xarray

DATASET, FORMAT = "sweep.zarr", "tokenfield-sweep-3"
TEXTS = ("method_used", "reductions_used", "error")  # results that are text


class Damage(NamedTuple):
    """A file of results that cannot be used, the array it belongs to, and the cells whose results it held."""

    file: Path
    name: str
    cells: tuple[slice, ...]

    def __str__(self) -> str:
        return f"{self.file} is {'damaged' if self.file.exists() else 'missing'}"


def results(plan: Plan) -> list[str]:
    """Return the arrays that change, in the order in which they are written: a cell's status comes after its numbers."""
    return [*plan.record, "end_time", *TEXTS, "status"]


def coordinates(plan: Plan) -> dict[str, np.ndarray]:
    """Return the values along all axes: parameters, repeats, times of quantities."""
    axes = {name: _labels(axis.expanded()) for name, axis in plan.axes.items()} | {"repeat": np.arange(plan.repeats)}
    for name, quantity in plan.record.items():
        if quantity.times is not None:
            axes[f"time_{name}"] = np.asarray(quantity.times.expanded(), float)
    return axes


def _labels(values: list[Any]) -> np.ndarray:
    return np.array(values, dtype="T") if any(isinstance(value, str) for value in values) else np.array(values)


def holds_sweep(folder: Path) -> bool:
    """Return True if a folder holds a sweep."""
    return current(folder / DATASET).is_dir()


def plan_in(folder: Path) -> Plan:
    """Return the plan of the sweep in a folder."""
    if not holds_sweep(folder):
        raise ValueError(f"{folder} holds no sweep")
    place = current(folder / DATASET)
    try:
        found = attributes(place)
        known = found.get("format")
        plan = Plan.model_validate_json(found["plan"]) if known == FORMAT else None
        sound = plan is not None and found.get("checksum") == checksum(place, without=results(plan))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{place} is damaged: {reason}. Give another folder, or --overwrite") from None
    if known != FORMAT and "plan" in found:
        without = ", without checksums" if known is None else ""
        raise ValueError(
            f"{place} was written by an older tokenfield{without}: xarray.open_zarr reads it; "
            "to continue, give another folder, or --overwrite"
        )
    if plan is None:
        raise ValueError(f"{place} is not a sweep of tokenfield (format {known!r})")
    if not sound:
        raise ValueError(f"{place} is damaged: its checksum does not match. Give another folder, or --overwrite")
    return plan


def read(folder: Path) -> tuple["xarray.Dataset", list[Damage]]:
    """Return the dataset of the sweep in a folder, in memory, and the files of results that are damaged or missing.

    Results in such files are blank: NaN, status 0.
    """
    import xarray
    import zarr

    plan, place = plan_in(folder), current(folder / DATASET)
    found: dict[str, np.ndarray] = {}
    damage: list[Damage] = []
    try:
        dataset = xarray.open_zarr(place, consolidated=False, zarr_format=3, chunks=None)
        fixed = dataset.drop_vars(results(plan)).load()
        group = zarr.open_group(place, mode="r", zarr_format=3)
        for name in reversed(results(plan)):  # status first: done cells already have their numbers
            array: Any = group[name]
            found[name] = (
                np.full(array.shape, np.nan) if array.dtype.kind == "f" else np.zeros(array.shape, array.dtype)
            )
            for block in itertools.product(*map(range, array.cdata_shape)):
                where = tuple(slice(b * size, (b + 1) * size) for b, size in zip(block, array.chunks, strict=True))
                file = place.joinpath(name, "c", *map(str, block))
                try:
                    if not file.is_file():
                        raise FileNotFoundError
                    found[name][where] = array[where]
                except Exception:  # a damaged file raises errors of many kinds
                    damage.append(Damage(file, name, where[: len(plan.shape)]))
        variables = {name: (dataset[name].dims, found[name], dataset[name].attrs) for name in results(plan)}
        whole = fixed.assign(variables)[list(dataset.data_vars)]
        alike = whole["status"].dims == (*plan.axes, "repeat") and all(
            repr(whole[name].values.tolist()) == repr(values.tolist()) for name, values in coordinates(plan).items()
        )
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{place} is damaged: {reason}. Give another folder, or --overwrite") from None
    if not alike:
        raise ValueError(f"{place} is damaged: its axes are not those of its plan. Give another folder, or --overwrite")
    return whole, damage


def open_dataset(folder: Path) -> "xarray.Dataset":
    """Return the dataset of the sweep in a folder, in memory; raise ValueError with the first damaged file."""
    dataset, damage = read(folder)
    if damage:
        lost = int(lost_cells(dataset["status"].shape, damage).sum())
        more = f" and {len(damage) - 1} more files are" if len(damage) > 1 else ""
        raise ValueError(
            f"{damage[0]}{more}: {lost} of {dataset['status'].size} cells may be lost. --resume runs them again"
        )
    return dataset


def lost_cells(shape: tuple[int, ...], damage: list[Damage]) -> np.ndarray:
    """Return True for the cells whose results were in damaged files."""
    lost = np.zeros(shape, bool)
    for each in damage:
        lost[each.cells] = True
    return lost
