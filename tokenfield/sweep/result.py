"""The result of a sweep."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .._explained import card, text
from .plan import Plan
from .store import DONE, FAILED
from .stored import open_dataset

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class SweepResult:
    """The dataset of a sweep, with its plan and its figures.

    Example:
        >>> import tokenfield as tkf
        >>> run = {"t1": 2.0, "tokens": {"n": 8, "d": 3}}
        >>> found = tkf.sweep({"run": run, "axes": {"beta": [1.0, 2.0]}, "record": {"r": "order_parameter"}})
        >>> found.mean("r").values.round(3)
        array([0.964, 0.49 ])
        >>> figure = found.plot("r")
    """

    def __init__(self, dataset: "xarray.Dataset", folder: Path | None = None):
        self.dataset, self.folder = dataset, folder

    @classmethod
    def open(cls, folder: str | Path) -> "SweepResult":
        """Open the sweep in a folder, finished or not."""
        return cls(open_dataset(Path(folder)), Path(folder))

    @property
    def plan(self) -> Plan:
        """The plan that made it."""
        return Plan.model_validate_json(self.dataset.attrs["plan"])

    @property
    def counts(self) -> dict[str, int]:
        """The number of cells, and how many of them are done and have failed."""
        status = self.dataset["status"].values
        return {"cells": status.size, "done": int((status == DONE).sum()), "failed": int((status == FAILED).sum())}

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The failed cells: their parameters, and the error of each."""
        status = self.dataset["status"]
        shown = [*status.dims, "id", "error"]
        places = [dict(zip(status.dims, place, strict=True)) for place in np.argwhere(status.values == FAILED)]
        return [
            {str(name): self.dataset[name].isel(place, missing_dims="ignore").item() for name in shown}
            for place in places
        ]

    def mean(self, name: str) -> "xarray.DataArray":
        """Return the mean of a quantity over repeats, without cells that failed or have no value."""
        return self.dataset[name].mean("repeat", keep_attrs=True)

    @overload
    def plot(self, name: str | None = None) -> "Figure": ...
    @overload
    def plot(self, name: str | None = None, *, ax: "Axes") -> "Axes": ...
    def plot(self, name: str | None = None, *, ax: "Axes | None" = None) -> "Figure | Axes":
        """Draw one quantity (the first by default) as a heat map or as curves, with small multiples for further axes, and theory
        if the plan names one.

        Args:
            name: the quantity.
            ax: your own matplotlib axes, for a sweep with a single panel; they are returned.
        """
        from .figures import draw_sweep, plot_sweep

        name = name or next(iter(self.plan.record))
        return plot_sweep(self, name) if ax is None else draw_sweep(self, name, ax)

    def to_netcdf(self, path: str | Path) -> None:
        """Write the dataset as one NetCDF 4 file."""
        try:
            import netCDF4  # noqa: F401
        except ImportError:
            raise ValueError('NetCDF needs netCDF4: pip install -e ".[netcdf]" in the folder of tokenfield') from None
        if not Path(path).parent.is_dir():
            raise ValueError(f"cannot write {path}: there is no folder {Path(path).parent}")
        plain = self.dataset.copy()
        for name, variable in self.dataset.variables.items():
            if variable.dtype.kind == "T":  # a NumPy type that NetCDF does not know
                plain[name] = (variable.dims, variable.values.astype(object), variable.attrs)
        try:
            plain.to_netcdf(path, engine="netcdf4")
        except OSError as error:
            raise ValueError(f"cannot write {path}: {error.strerror or error}") from None

    def _repr_html_(self) -> str:
        axes = {str(name): text(self.dataset[name].values.tolist()) for name in self.dataset["status"].dims}
        recorded = {name: str(self.dataset[name].attrs["long_name"]) for name in self.plan.record}
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        note = f"found.dataset, found.mean({next(iter(recorded), '')!r}), found.plot()"
        return card(f"Sweep: {self.plan.name}", {**axes, **recorded, "state": counts}, note)

    def __repr__(self) -> str:
        counts = self.counts
        axes = " × ".join(f"{name} {size}" for name, size in self.dataset["status"].sizes.items())
        return f"SweepResult({self.plan.name}: {axes}; {counts['done']} of {counts['cells']} cells done, {counts['failed']} failed)"
