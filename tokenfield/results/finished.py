"""From the end of a run to labeled data: every `Trajectory` and every member of an `Ensemble` is made here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..flows import with_most_modes
from ..states import AbstractDensity
from ..transformer import Transformer
from .datasets import to_table
from .describe import describe
from .provenance import provenance
from .table import Table
from .trajectory import Trajectory

if TYPE_CHECKING:
    import xarray


class Finished(NamedTuple):
    """A run that has ended.

    Args:
        table: its states at the save times that it reached, and at its end.
        events: its events, in order of time, as plain data.
        log_time_unit: logarithm of the unit of time.
        steps, rejected: numbers of steps taken and rejected.
    """

    table: Table
    events: list[dict[str, Any]]
    log_time_unit: float
    steps: int
    rejected: int

    def trajectory(self, model: Any, config: Mapping[str, Any], **more: Any) -> Trajectory:
        """Return the run as a `Trajectory`.

        Args:
            model: the model, or one for each layer; None if it is not known.
            config: how the run was computed; see `configuration`.
            more: attributes that only some kinds of runs have, such as a seed. They are also in the config.
        """
        return Trajectory(self.table.assign_attrs(_attributes([self], model, config, self.events, more)))


def joined(times: np.ndarray, rows: Any, end: float, last: Any) -> tuple[np.ndarray, Any]:
    """Return the times and rows of a run as NumPy arrays, with its end if that is not a save time.

    Args:
        times: the save times that the run reached.
        rows: a tree of arrays; their first rows are those at these times.
        end, last: the time at the end of the run, and the row there.
    """
    rows = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(times)], rows)
    if len(times) and times[-1] == end:
        return times, rows
    join = lambda leaf, last: np.concatenate([leaf, np.asarray(last)[None]])  # noqa: E731
    return np.append(times, end), jax.tree.map(join, rows, last)


def table_of(times: np.ndarray, states: Any, scaled: tuple[Any, Any] | None) -> Table:
    """Return the table of a run; `scaled` is `e^{-c} x` and c of rescaled tokens, if it has any."""
    table = to_table(states, times)
    if scaled is None:
        return table
    x, log_scale = scaled
    return table.assign(scaled=(table["x"].dims, x), log_scale=("time", log_scale))


def event(kind: str, time: float, message: str = "") -> dict[str, Any]:
    """Return an event as plain data."""
    return {"kind": kind, "time": float(time)} | ({"detail": {"message": message}} if message else {})


def configuration(method: str, settings: Mapping[str, Any], reductions: Iterable[str] = ()) -> dict[str, Any]:
    """Return how a run was computed, as plain data. Layers, whose settings have a depth, have no method of their own."""
    config = {name: describe(value) for name, value in settings.items()}
    return config if "depth" in config else config | {"method": method, "reductions": list(reductions)}


def finished_runs(runs: Sequence[Trajectory]) -> list[Finished]:
    """Return trajectories as members of an ensemble; densities get the largest number of modes among them."""
    tables = [run.table for run in runs]
    if isinstance(runs[0].final, AbstractDensity):
        same = iter(with_most_modes([state for run in runs for state in run.states]))
        stacks = [jax.tree.map(lambda *leaves: np.stack(leaves), *(next(same) for _ in run.times)) for run in runs]
        tables = [to_table(states, run.times) for states, run in zip(stacks, runs, strict=True)]
    of_state = to_table(jax.tree.map(lambda leaf: np.asarray(leaf)[None], runs[0].final), np.zeros(1)).attrs
    found = []
    for table, run in zip(tables, runs, strict=True):
        attrs = run.table.attrs
        counts = attrs["steps"], attrs["rejected_steps"]
        found.append(Finished(Table(table.columns, of_state), json.loads(attrs["events"]), run.log_time_unit, *counts))
    return found


def ensemble_dataset(
    runs: Sequence[Finished],
    times: np.ndarray,
    model: Transformer | Sequence[Transformer],
    config: Mapping[str, Any],
    **more: Any,
) -> "xarray.Dataset":
    """Return the dataset of an ensemble: the tables of its members, stacked along a first axis `member`.

    Args:
        runs: the members.
        times: the save times, which they share. `end_time` is the time at which a member ended, and `end_…` its state then.
        model: one model for all members, or a list.
        config, more: as for `Finished.trajectory`.
    """
    import xarray

    units = [run.log_time_unit for run in runs]
    if not np.allclose(units, units[0]):
        raise ValueError("model: the models have different time units: give all attentions the same log_unit")
    tables = [run.table for run in runs]
    ends = np.array([table["time"].values[-1] for table in tables])
    counts = np.searchsorted(times, ends, "right").tolist()
    columns: dict[str, Any] = {"end_time": ("member", ends)}
    shared = set.intersection(*(set(table.columns) for table in tables)) - {"time"}
    for name in (
        name for name in tables[0].columns if name in shared
    ):  # members that coarsen have more columns than others
        parts = [table[name] for table in tables]
        dims = max((part.dims for part in parts), key=len)  # weights may change with time in some members only
        if "time" not in dims:
            columns[name] = ("member", *dims), np.stack([part.values for part in parts])
            continue
        rows = [
            part.values
            if part.dims == dims
            else np.broadcast_to(part.values, (len(table["time"].values), *part.values.shape))
            for part, table in zip(parts, tables, strict=True)
        ]
        late = -1 if rows[0].dtype.kind == "i" else np.nan
        saved = np.full((len(rows), len(times), *rows[0].shape[1:]), late, rows[0].dtype)
        for k, count in enumerate(counts):
            saved[k, :count] = rows[k][:count]
        columns[name] = ("member", *dims), saved
        columns[f"end_{name}"] = ("member", *dims[1:]), np.stack([each[-1] for each in rows])
    described = _attributes(runs, model, config, [run.events for run in runs], more)
    return xarray.Dataset(columns, {"time": times}, tables[0].attrs | described)


def _attributes(
    runs: Sequence[Finished], model: Any, config: Mapping[str, Any], events: list[Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of a dataset: how it was computed, and its events, as JSON."""
    model = [describe(each) for each in model] if isinstance(model, Sequence) else describe(model)
    return {
        **provenance(),
        "config": json.dumps({"model": model, **config, **more}),
        "events": json.dumps(events),
        "log_time_unit": runs[0].log_time_unit + 0.0,
        "steps": sum(run.steps for run in runs),
        "rejected_steps": sum(run.rejected for run in runs),
        **more,
    }
