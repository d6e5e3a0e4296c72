"""The result of a run."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .._check import as_path
from .._explained import card
from .._lazy import drawing, live_page, measuring
from ..spaces import AbstractSpace, Euclidean, Sphere
from ..transformer import Transformer
from .describe import compared_in, rebuilt_space
from .moments import event_text, moment_text
from .rebuild import part_with_energy, rebuilt
from .saved import read_saved, write_saved
from .table import Table

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMAT = "tokenfield-trajectory-2"


@dataclasses.dataclass(frozen=True)
class Event:
    """An event at one time, such as a stop, a blow-up, or a token that reached length 0."""

    kind: str
    time: float
    detail: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Trajectory:
    """The states of a run over time, with everything that determines them.

    Built by `simulate`, `layers` and `load`. All data are in `dataset`.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(64, 3, seed=0), t1=5.0)
        >>> traj.final, float(traj.times[-1]), dict(traj.dataset.sizes)
        (Tokens(n=64, d=3), 5.0, {'time': 101, 'token': 64, 'coordinate': 3})
    """

    def __init__(self, data: "xarray.Dataset | Table"):
        self._data = data

    @property
    def dataset(self) -> "xarray.Dataset":
        """All data of the run, labeled."""
        if isinstance(self._data, Table):
            self._data = self._data.dataset()
        return self._data

    @property
    def table(self) -> Table:
        """All data of the run, without xarray."""
        return Table.of(self._data)

    @classmethod
    def from_solution(cls, solution: Any, model: Any = None) -> "Trajectory":
        """Return a `Solution` as a trajectory, with its event if it has one.

        Args:
            solution: the result of `solve`, outside jit, vmap and grad.
            model: the model, to be recorded in the dataset.

        Example:
            >>> import tokenfield as tkf
            >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
            >>> tkf.Trajectory.from_solution(tkf.solve(model, tkf.Equiangular(0.0, n=8), t1=1.0), model)
            Trajectory(time 1; until t = 1; events: none)
        """
        from .finished import Finished, configuration, event, joined, table_of

        times, rule, (rows, last) = (
            np.asarray(solution.times),
            solution.settings["stop_when"],
            solution.scaled or (None, None),
        )
        times, end, events = times[np.isfinite(times)], float(solution.event_time), []
        if np.isfinite(end):
            events.append(event(rule.kind if solution.reason == "stopped" else solution.reason, end))
        end = end if events else times[-1]
        times, (states, scaled) = joined(times, (solution.states, rows), end, (solution.final, last))
        steps, rejected = (int(solution.stats[name]) for name in ("steps", "rejected"))
        run = Finished(table_of(times, states, scaled), events, float(solution.log_time_unit), steps, rejected)
        return run.trajectory(model, configuration(solution.method, solution.settings))

    @property
    def times(self) -> np.ndarray:
        """The times of the states, in the unit `time_unit`."""
        return self._data["time"].values

    @property
    def log_time_unit(self) -> float:
        """Logarithm of the time unit (0 for a unit of 1)."""
        return float(self._data.attrs["log_time_unit"])

    @property
    def time_unit(self) -> str:
        """The time unit, as text."""
        return "1" if self.log_time_unit == 0 else f"exp({self.log_time_unit:g})"

    @property
    def log_times(self) -> np.ndarray:
        """Logarithms of time in units of 1, also for times too large for a double (-inf at time 0)."""
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
        """Return the state at `times[index]`."""
        from .datasets import state_at

        return state_at(self._data, index)

    @property
    def events(self) -> list[Event]:
        """The events of the run, in order of time."""
        return [Event(**event) for event in json.loads(self._data.attrs["events"])]

    @property
    def config(self) -> dict[str, Any]:
        """Model, tolerances and method, as plain data."""
        return json.loads(self._data.attrs["config"])

    @property
    def models(self) -> list[Mapping[str, Any]]:
        """The models of the run, as plain data: one, or one per layer; empty if none was recorded."""
        model = self.config.get("model") or []
        return [model] if isinstance(model, Mapping) else list(model)

    @property
    def model(self) -> Transformer:
        """The Transformer of the run, rebuilt from the record in the run; raises ValueError if that record is not complete.

        It is complete unless the model has functions of time, large arrays or your own classes, or differs between layers.
        """
        if len(self.models) != 1:
            raise ValueError(f"this run has no single model: it records {len(self.models)}")
        return rebuilt(self.models[0])

    @property
    def space(self) -> AbstractSpace:
        """The space in which tokens are compared: their own space, or that of their directions if their lengths evolve."""
        if "space" in self._data.attrs:
            return rebuilt_space(json.loads(self._data.attrs["space"]))
        spaces = [compared_in(model) for model in self.models]
        return Sphere() if spaces and all(isinstance(space, Sphere) for space in spaces) else Euclidean()

    @property
    def energy_beta(self) -> float | None:
        """beta of the energy `∬ e^{beta<θ,θ'>} dmu dmu` of directions θ that the flow increases; None if there is no such energy.

        It exists for a single model: isotropic SA or USA with V = I, under a norm that moves directions. None, too, if the
        record of the model is not complete.
        """
        from ..flows.energy import energy_beta

        if self._data.attrs["state"] != "Tokens" or len(self.models) != 1:
            return None
        try:
            return energy_beta(part_with_energy(self.models[0]), self.dataset.sizes["coordinate"])
        except ValueError:
            return None

    def observe(self, name: "str | Callable[..., Any]", **options: Any) -> "xarray.DataArray":
        """Return an observable over time, labeled.

        Args:
            name: the name of an observable, such as "order_parameter" or "clusters", a user's own as "module:function", or a
                function of a state.
            options: its parameters. If it has a parameter `model`, the default is the model of the run.

        Example:
            >>> import tokenfield as tkf
            >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
            >>> traj = tkf.simulate(model, tkf.uniform_sphere(8, 3, seed=0), t1=2.0, save_at=3)
            >>> traj.observe("fraction_above", threshold=0.9).values
            array([0.03571429, 0.14285714, 0.17857143])
        """
        return measuring().observe(self, name, **options)

    def save(self, path: str | os.PathLike, overwrite: bool = False) -> Path:
        """Write the run to a Zarr (version 3) folder; read it back with `tokenfield.load`."""
        return write_saved(self.dataset, path, FORMAT, overwrite)

    @overload
    def plot(self, **options: Any) -> "Figure": ...
    @overload
    def plot(self, ax: "Axes", panel: str = "tokens", **options: Any) -> "Axes": ...
    def plot(self, ax: "Axes | None" = None, panel: str = "tokens", **options: Any) -> "Figure | Axes":
        """Draw one figure: the tokens, their energy, and their cosines over time. See `tokenfield.plotting.overview`.

        Args:
            ax: your own matplotlib axes. One panel is drawn into them, and they are returned.
            panel: which one, "tokens", "energy" or "cosines".
            options: those of `overview`, or of `tokens_panel`, `energy_panel` or `cosine_panel`.
        """
        return drawing().overview(self, **options) if ax is None else drawing().draw_panel(self, ax, panel, **options)

    def plot_field(self, t: float | None = None, **options: Any) -> "Figure":
        """Draw the velocity of a token at each point, and the tokens, at time t. See `tokenfield.plotting.field_figure`."""
        return drawing().field_figure(self, t, **options)

    def animate(self, path: str | os.PathLike, **options: Any) -> Path:
        """Write an animation of the tokens: a GIF, an MP4 film or a page, by the suffix. See `tokenfield.plotting.animate`."""
        return drawing().animate(self, path, **options)

    def facts(self) -> dict[str, str]:
        """Return the properties of the run as text: model, state, times, events."""
        models = self.models
        try:
            model = repr(self.model) if len(models) == 1 else f"{len(models)} models, one for each layer"
        except ValueError:  # the record is not complete
            model = f"{models[0]['attention']['kind']}, {models[0]['norm']['kind']}"
        events = "; ".join(event_text(self, event) for event in self.events[:5])
        more = f"; … {len(self.events)} in total" if len(self.events) > 5 else ""
        return {
            "model": model if models else "not recorded",
            "state": repr(self.state(0)),
            "times": time_range(self.times, self.log_time_unit),
            "events": events + more or "none",
        }

    def _repr_html_(self) -> str:
        return card("Trajectory", self.facts(), "traj.final, traj.observe(name), traj.plot(), traj.animate(path)")

    def explore(self, height: int = 640) -> Any:
        """Return the live page with this run, for a notebook; see `tokenfield.explorer.explore`."""
        return live_page().explore(self, height)

    def __repr__(self) -> str:
        order = sorted(map(str, self.dataset.sizes), key=lambda name: (name != "time", name))
        sizes = ", ".join(f"{name} {self.dataset.sizes[name]}" for name in order)
        events = "; ".join(event_text(self, event) for event in self.events) or "none"
        end = moment_text(self.times[-1], self.log_time_unit)
        return f"Trajectory({sizes}; until {end}; events: {events})"


def time_range(times: np.ndarray, log_unit: float) -> str:
    """Return the first and the last time, and the number of times, as text."""
    return f"{moment_text(times[0], log_unit)} to {moment_text(times[-1], log_unit).removeprefix('t = ')}, {len(times)} saved"


def load(path: str | os.PathLike) -> Trajectory:
    """Return the trajectory that `Trajectory.save` wrote, after verifying its checksum.

    Example:
        >>> import tokenfield as tkf
        >>> traj = tkf.load("run.zarr")
    """
    found = Trajectory(read_saved(as_path("path", path), "run", FORMAT))
    try:
        _ = found.events, found.config, found.log_time_unit, found.dataset.attrs["state"], found.times
    except (KeyError, TypeError, ValueError) as error:
        message = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is not a saved run, or it is damaged: {message}") from error
    return found
