"""Labeled arrays that become an `xarray.Dataset` only when needed, because importing xarray takes longer than a small run."""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .labels import labeled_run

if TYPE_CHECKING:
    import xarray


class Column(NamedTuple):
    """An array and the names of its axes."""

    dims: tuple[str, ...]
    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class Table:
    """Arrays by name, and attributes; methods have the names that xarray gives them."""

    columns: dict[str, Column]
    attrs: dict[str, Any]

    @classmethod
    def of(cls, data: "xarray.Dataset | Table") -> "Table":
        """Return the table of a dataset."""
        if isinstance(data, Table):
            return data
        return cls(
            {str(name): Column(tuple(map(str, each.dims)), each.values) for name, each in data.variables.items()},
            data.attrs,
        )

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def assign(self, **columns: tuple[tuple[str, ...] | str, Any]) -> "Table":
        """Return the table with added columns, each a pair of dims and an array."""
        return dataclasses.replace(self, columns=self.columns | labeled(columns))

    def assign_attrs(self, attrs: dict[str, Any]) -> "Table":
        """Return the table with added attributes."""
        return dataclasses.replace(self, attrs=self.attrs | attrs)

    def dataset(self) -> "xarray.Dataset":
        """Return the table as a dataset whose coordinate is `time`."""
        import xarray

        columns = dict(self.columns)
        time = columns.pop("time")
        arrays = {name: tuple(each) for name, each in columns.items()}
        return labeled_run(xarray.Dataset(arrays, {"time": tuple(time)}, self.attrs))


def table(times: np.ndarray, attrs: dict[str, Any], **columns: tuple[tuple[str, ...] | str, Any]) -> Table:
    """Return a table of arrays over time, each a pair of dims and an array."""
    return Table(labeled({"time": ("time", np.asarray(times, float)), **columns}), attrs)


def labeled(columns: dict[str, Any]) -> dict[str, Column]:
    """Return columns from pairs of dims (a tuple of names, or one name) and arrays."""
    tuples = {
        name: ((dims,) if isinstance(dims, str) else tuple(dims), values) for name, (dims, values) in columns.items()
    }
    return {name: Column(dims, np.asarray(values)) for name, (dims, values) in tuples.items()}
