"""Convert states to labeled tables and back."""

import json
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._shown import shown
from ..states import AbstractDensity, CircleDensity, Equiangular, Gaussian, SphereDensity, Tokens, ZonalDensity
from .describe import describe, rebuilt_space
from .table import Table, table

if TYPE_CHECKING:
    import xarray


@singledispatch
def to_table(states: Any, times: np.ndarray) -> Table:
    """Return states, stacked along a leading time axis, as a labeled table. Weights have a time axis only if they change."""
    raise TypeError(f"states of type {type(states).__name__} have no table: register one with to_table.register")


@to_table.register(Tokens)
def _(states: Tokens, times: np.ndarray) -> Table:
    weights = np.asarray(states.weights)
    moving = bool((weights != weights[:1]).any())
    space = states.given_space
    return table(
        times,
        {"state": "Tokens"} | ({} if space is None else {"space": json.dumps(describe(space))}),
        x=(("time", "token", "coordinate"), states.x),
        weights=(("time", "token"), weights) if moving else ("token", weights[0]),
        positions=("token", np.asarray(states.positions)[0]),
    )


@to_table.register(Gaussian)
def _(states: Gaussian, times: np.ndarray) -> Table:
    mean, cov = (("time", "coordinate"), states.mean), (("time", "coordinate", "coordinate_"), states.cov)
    return table(times, {"state": "Gaussian"}, mean=mean, cov=cov)


@to_table.register(Equiangular)
def _(states: Equiangular, times: np.ndarray) -> Table:
    values = {name: ("time", getattr(states, name)) for name in ("rho", "gap", "radius")}
    return table(times, {"state": "Equiangular", "n": states.n}, **values)


_AXES = {"CircleDensity": ("wave", "mode"), "ZonalDensity": ("mode",), "SphereDensity": ("wave", "order", "mode")}


@to_table.register(AbstractDensity)
def _(states: AbstractDensity, times: np.ndarray) -> Table:
    name = type(states).__name__
    return table(times, {"state": name, "d": states.d}, coefficients=(("time", *_AXES[name]), states.coefficients))


def state_at(dataset: "xarray.Dataset | Table", index: int) -> Any:
    """Return the state at a time index of a dataset or a table."""
    part = lambda name: dataset[name].values[index]  # noqa: E731
    match dataset.attrs["state"]:
        case "Tokens":
            weights = dataset["weights"]
            moving = "time" in weights.dims
            return Tokens(
                part("x"),
                part("weights") if moving else weights.values,
                dataset["positions"].values,
                rebuilt_space(json.loads(dataset.attrs["space"])) if "space" in dataset.attrs else None,
            )
        case "Gaussian":
            return Gaussian(part("mean"), part("cov"))
        case "Equiangular":
            return Equiangular(part("rho"), dataset.attrs["n"], part("radius"), gap=part("gap"))
        case "CircleDensity":
            return CircleDensity.uniform(1).replaced(jnp.asarray(part("coefficients")))
        case "SphereDensity":
            return SphereDensity.uniform(1).replaced(jnp.asarray(part("coefficients")))
        case "ZonalDensity":
            return ZonalDensity.uniform(1, dataset.attrs["d"]).replaced(jnp.asarray(part("coefficients")))
    raise TypeError(f"the dataset has an unknown kind of state, {shown(dataset.attrs['state'])}")
