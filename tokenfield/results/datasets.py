"""Convert states to labeled tables and back. Each kind of state registers both directions together, with `register_table`."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from .._shown import shown
from ..states import AbstractDensity, CircleDensity, Equiangular, Gaussian, SphereDensity, Tokens, ZonalDensity
from .describe import describe, rebuilt_space, recorded_kind
from .table import Table, table

if TYPE_CHECKING:
    import xarray

Data: TypeAlias = "xarray.Dataset | Table"
Write = Callable[[Any, np.ndarray], Table]
Read = Callable[[Data, int], Any]
_CONVERTED: dict[str, tuple[Write, Read]] = {}


def register_table(kind: type, write: Write, read: Read) -> None:
    """Register how states of a kind are stored.

    Args:
        kind: the class of the states.
        write: returns the table of states that are stacked along a leading time axis, from them and their times.
        read: returns the state at a time index of such a table, or of the dataset made of it.
    """
    _CONVERTED[recorded_kind(kind)] = write, read


def to_table(states: Any, times: np.ndarray) -> Table:
    """Return states, stacked along a leading time axis, as a labeled table."""
    name = recorded_kind(type(states))
    if name not in _CONVERTED:
        raise TypeError(f"states of type {type(states).__name__} have no table: give them one with register_table")
    return _CONVERTED[name][0](states, times).assign_attrs({"state": name})


def state_at(dataset: Data, index: int) -> Any:
    """Return the state at a time index of a dataset or a table."""
    name = dataset.attrs["state"]
    if name not in _CONVERTED:
        raise TypeError(f"the dataset has an unknown kind of state, {shown(name)}: import its module first")
    return _CONVERTED[name][1](dataset, index)


def _write_tokens(states: Tokens, times: np.ndarray) -> Table:
    """Weights have a time axis only if they change."""
    weights = np.asarray(states.weights)
    moving = bool((weights != weights[:1]).any())
    space = states.given_space
    return table(
        times,
        {} if space is None else {"space": json.dumps(describe(space))},
        x=(("time", "token", "coordinate"), states.x),
        weights=(("time", "token"), weights) if moving else ("token", weights[0]),
        positions=("token", np.asarray(states.positions)[0]),
    )


def _read_tokens(dataset: Data, index: int) -> Tokens:
    weights = dataset["weights"]
    return Tokens(
        dataset["x"].values[index],
        weights.values[index] if "time" in weights.dims else weights.values,
        dataset["positions"].values,
        rebuilt_space(json.loads(dataset.attrs["space"])) if "space" in dataset.attrs else None,
    )


def _write_gaussian(states: Gaussian, times: np.ndarray) -> Table:
    mean, cov = (("time", "coordinate"), states.mean), (("time", "coordinate", "coordinate_"), states.cov)
    return table(times, {}, mean=mean, cov=cov)


def _read_gaussian(dataset: Data, index: int) -> Gaussian:
    return Gaussian(dataset["mean"].values[index], dataset["cov"].values[index])


def _write_equiangular(states: Equiangular, times: np.ndarray) -> Table:
    values = {name: ("time", getattr(states, name)) for name in ("rho", "gap", "radius")}
    return table(times, {"n": states.n}, **values)


def _read_equiangular(dataset: Data, index: int) -> Equiangular:
    rho, gap, radius = (dataset[name].values[index] for name in ("rho", "gap", "radius"))
    return Equiangular(rho, dataset.attrs["n"], radius, gap=gap)


def _register_density(
    kind: type[AbstractDensity], axes: tuple[str, ...], uniform: Callable[[Data], AbstractDensity]
) -> None:
    """Register a kind of density by the names of the axes of its coefficients, and any density like those of a table."""

    def write(states: AbstractDensity, times: np.ndarray) -> Table:
        return table(times, {"d": states.d}, coefficients=(("time", *axes), states.coefficients))

    def read(dataset: Data, index: int) -> AbstractDensity:
        return uniform(dataset).replaced(jnp.asarray(dataset["coefficients"].values[index]))

    register_table(kind, write, read)


register_table(Tokens, _write_tokens, _read_tokens)
register_table(Gaussian, _write_gaussian, _read_gaussian)
register_table(Equiangular, _write_equiangular, _read_equiangular)
_register_density(CircleDensity, ("wave", "mode"), lambda dataset: CircleDensity.uniform(1))
_register_density(SphereDensity, ("wave", "order", "mode"), lambda dataset: SphereDensity.uniform(1))
_register_density(ZonalDensity, ("mode",), lambda dataset: ZonalDensity.uniform(1, dataset.attrs["d"]))
