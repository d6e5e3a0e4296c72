"""The result of an ensemble of runs."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .._explained import card
from .._lazy import measuring
from ..transformer import Transformer
from .labels import labeled_run
from .trajectory import Event, Trajectory, time_range

if TYPE_CHECKING:
    import xarray

OWN_NUMBERS = ("dt", "kappa")  # numbers of runs with noise, which may differ between members


class Ensemble:
    """An ensemble of runs: a dataset whose first axis is `member`, and a `Trajectory` for each member.

    A member that ended early has NaN at later times; `end_time` is the time at which it ended, and `end_…` its state then.

    Example:
        >>> import tokenfield as tkf
        >>> starts = [tkf.Equiangular(rho, n=8) for rho in (0.0, 0.5)]
        >>> runs = tkf.simulate_many(tkf.Transformer(tkf.Softmax(beta=1.0), tkf.PostLN()), starts, t1=1.0)
        >>> runs[1].final, dict(runs.dataset["rho"].sizes)
        (Equiangular(rho=0.883125, n=8, gap=0.116875), {'member': 2, 'time': 101})
    """

    def __init__(self, dataset: "xarray.Dataset"):
        self.dataset = labeled_run(dataset)

    def observe(self, name: "str | Callable[..., Any]", **options: Any) -> "xarray.DataArray":
        """Return an observable of all members over time, with dims member and time. See `Trajectory.observe`."""
        return measuring().observe(self, name, **options)

    @property
    def model(self) -> list[Transformer]:
        """The Transformer of each member, as `Trajectory.model`."""
        return [run.model for run in self]

    @property
    def times(self) -> np.ndarray:
        """The save times."""
        return self.dataset["time"].values

    @property
    def events(self) -> list[list[Event]]:
        """The events of each member."""
        return [[Event(**event) for event in events] for events in json.loads(self.dataset.attrs["events"])]

    def __len__(self) -> int:
        return self.dataset.sizes["member"]

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> Trajectory:
        import xarray

        member = self.dataset.isel(member=k)
        ends = {str(name): member[name].values for name in member.data_vars if str(name).startswith("end_")}
        saved = member.drop_vars(list(ends))
        end = float(ends.pop("end_time"))
        saved = saved.isel(time=saved["time"].values <= end)
        if not saved.sizes["time"] or saved["time"].values[-1] != end:
            last = xarray.Dataset(
                {name[4:]: (("time", *saved[name[4:]].dims[1:]), value[None]) for name, value in ends.items()},
                coords={"time": [end]},
            )
            saved = xarray.concat([saved, last], "time", data_vars="minimal", combine_attrs="override")
        own = {name: json.loads(self.dataset.attrs[name]) for name in ("events", "config")}
        config = {name: _own(name, value, k, len(self)) for name, value in own["config"].items()}
        about = {name: config[name] for name in OWN_NUMBERS if name in saved.attrs}
        return Trajectory(saved.assign_attrs(events=json.dumps(own["events"][k]), config=json.dumps(config), **about))

    def _repr_html_(self) -> str:
        first = self[0].facts()
        rows = {"members": str(len(self)), **{name: value for name, value in first.items() if name != "events"}}
        kinds = Counter(event.kind for events in self.events for event in events)
        events = ", ".join(f"{kind}: {count}" for kind, count in kinds.items()) or "none"
        return card("Ensemble", rows | {"times": time_range(self.times, self[0].log_time_unit), "events": events})

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} runs of {self.dataset.attrs['state']}; t to {self.times[-1]:.6g})"


def _own(name: str, value: Any, k: int, members: int) -> Any:
    """Return a setting of member k: a setting that may differ between members is a list with one entry for each."""
    each = name in ("model", "method", *OWN_NUMBERS) or (
        name == "reductions" and any(isinstance(item, list) for item in value)
    )
    return value[k] if each and isinstance(value, list) and len(value) == members else value
