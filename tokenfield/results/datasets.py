"""Convert states to labeled datasets and back."""

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._shown import shown
from ..states import AbstractDensity, CircleDensity, Equiangular, Gaussian, SphereDensity, Tokens, ZonalDensity

if TYPE_CHECKING:
    import xarray


@singledispatch
def to_dataset(states: Any, times: np.ndarray) -> "xarray.Dataset":
    """Return states, stacked along a leading time axis, as a labeled dataset. Weights have a time axis only if they change."""
    raise TypeError(f"states of type {type(states).__name__} have no dataset: register one with to_dataset.register")


@to_dataset.register(Tokens)
def _(states: Tokens, times: np.ndarray) -> "xarray.Dataset":
    import xarray

    weights = np.asarray(states.weights)
    moving = bool((weights != weights[:1]).any())
    return xarray.Dataset(
        {
            "x": (("time", "token", "coordinate"), np.asarray(states.x)),
            "weights": (("time", "token"), weights) if moving else (("token",), weights[0]),
            "positions": (("token",), np.asarray(states.positions)[0]),
        },
        coords={"time": ("time", np.asarray(times, float))},
        attrs={"state": "Tokens"},
    )


@to_dataset.register(Gaussian)
def _(states: Gaussian, times: np.ndarray) -> "xarray.Dataset":
    import xarray

    return xarray.Dataset(
        {
            "mean": (("time", "coordinate"), np.asarray(states.mean)),
            "cov": (("time", "coordinate", "coordinate_"), np.asarray(states.cov)),
        },
        coords={"time": ("time", np.asarray(times, float))},
        attrs={"state": "Gaussian"},
    )


@to_dataset.register(Equiangular)
def _(states: Equiangular, times: np.ndarray) -> "xarray.Dataset":
    import xarray

    values = {name: ("time", np.asarray(getattr(states, name))) for name in ("rho", "gap", "radius")}
    attributes = {"state": "Equiangular", "n": states.n}
    return xarray.Dataset(values, coords={"time": ("time", np.asarray(times, float))}, attrs=attributes)


_AXES = {"CircleDensity": ("wave", "mode"), "ZonalDensity": ("mode",), "SphereDensity": ("wave", "order", "mode")}


@to_dataset.register(AbstractDensity)
def _(states: AbstractDensity, times: np.ndarray) -> "xarray.Dataset":
    import xarray

    name = type(states).__name__
    return xarray.Dataset(
        {"coefficients": (("time", *_AXES[name]), np.asarray(states.coefficients))},
        coords={"time": ("time", np.asarray(times, float))},
        attrs={"state": name, "d": states.d},
    )


def state_at(dataset: "xarray.Dataset", index: int) -> Any:
    """Return the state at a time index of a dataset."""
    part = lambda name: dataset[name].values[index]  # noqa: E731
    match dataset.attrs["state"]:
        case "Tokens":
            weights = dataset["weights"]
            return Tokens(
                part("x"), part("weights") if "time" in weights.dims else weights.values, dataset["positions"].values
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
