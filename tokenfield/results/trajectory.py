"""What a run gives back."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .saved import read_saved, write_saved

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

FORMAT = "tokenfield-trajectory-1"


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened at a moment: a stop rule that held, a blow-up."""

    kind: str
    time: float
    detail: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Trajectory:
    """States of the measure over time, with everything that made them.

    Built by `simulate`, `layers` and `load`; the dataset holds it all.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(64, 3, seed=0), t1=5.0)
        >>> traj.final, traj.times[-1], traj.dataset
    """

    def __init__(self, dataset: "xarray.Dataset"):
        self.dataset = dataset

    @property
    def times(self) -> np.ndarray:
        """The times of the states, in the units that `time_unit` says."""
        return self.dataset["time"].values

    @property
    def log_time_unit(self) -> float:
        """Logarithm of the unit of time (0: plain time)."""
        return float(self.dataset.attrs["log_time_unit"])

    @property
    def time_unit(self) -> str:
        """The unit of time in words."""
        return "1" if self.log_time_unit == 0 else f"exp({self.log_time_unit:g})"

    @property
    def log_times(self) -> np.ndarray:
        """Logarithms of plain time, which also hold what no double can (-inf at time 0)."""
        if "log_time" in self.dataset:
            return self.dataset["log_time"].values
        with np.errstate(divide="ignore"):
            return np.log(self.times) + self.log_time_unit

    @property
    def states(self) -> list[Any]:
        """The state at each of `times`."""
        return [self.state(k) for k in range(len(self.times))]

    @property
    def final(self) -> Any:
        """The last state."""
        return self.state(-1)

    def state(self, index: int) -> Any:
        """The state at `times[index]`."""
        from .datasets import state_at

        return state_at(self.dataset, index)

    @property
    def events(self) -> list[Event]:
        """What happened on the way."""
        return [Event(**event) for event in json.loads(self.dataset.attrs["events"])]

    @property
    def config(self) -> dict[str, Any]:
        """Model, tolerances and method, as plain data."""
        return json.loads(self.dataset.attrs["config"])

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the run to a Zarr (version 3) folder; read it back with `tokenfield.load`."""
        return write_saved(self.dataset, path, FORMAT, overwrite)

    def plot(self, **options: Any) -> "Figure":
        """One figure: the tokens, their energy, their cosines over time. See `tokenfield.plotting.overview`."""
        from ..plotting import overview

        return overview(self, **options)

    def animate(self, path: str | os.PathLike, **options: Any) -> Path:
        """An animation of the tokens as a GIF. See `tokenfield.plotting.animate`."""
        from ..plotting import animate

        return animate(self, path, **options)

    def __repr__(self) -> str:
        order = sorted(map(str, self.dataset.sizes), key=lambda name: (name != "time", name))
        sizes = ", ".join(f"{name} {self.dataset.sizes[name]}" for name in order)
        events = "; ".join(f"{event.kind} at {event.time:.6g}" for event in self.events) or "none"
        return f"Trajectory({sizes}; t to {self.times[-1]:.6g} in units of {self.time_unit}; events: {events})"


def load(path: str | os.PathLike) -> Trajectory:
    """The trajectory that `Trajectory.save` wrote, checked against its checksum.

    Example:
        >>> import tokenfield as tkf
        >>> traj = tkf.load("run.zarr")
    """
    found = Trajectory(read_saved(Path(path), "run", FORMAT))
    try:
        _ = found.events, found.config, found.log_time_unit, found.dataset.attrs["state"]
    except (KeyError, TypeError, ValueError) as error:
        message = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is not a saved run, or it is damaged: {message}") from error
    return found
