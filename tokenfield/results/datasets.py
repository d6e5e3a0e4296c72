"""Labelled datasets of each kind of state, and back."""

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from ..states import Tokens

if TYPE_CHECKING:
    import xarray


@singledispatch
def to_dataset(states: Any, times: np.ndarray) -> "xarray.Dataset":
    """States stacked along a leading time axis as a labelled dataset."""
    raise TypeError(f"no dataset is known for {type(states).__name__}")


@to_dataset.register(Tokens)
def _(states: Tokens, times: np.ndarray) -> "xarray.Dataset":
    import xarray

    return xarray.Dataset(
        {
            "x": (("time", "token", "coordinate"), np.asarray(states.x)),
            "weights": (("token",), np.asarray(states.weights)[0]),
            "positions": (("token",), np.asarray(states.positions)[0]),
        },
        coords={"time": ("time", np.asarray(times, float))},
        attrs={"state": "Tokens"},
    )


def state_at(dataset: "xarray.Dataset", index: int) -> Any:
    """The state at a time index of a dataset."""
    if dataset.attrs["state"] == "Tokens":
        return Tokens(dataset["x"].values[index], dataset["weights"].values, dataset["positions"].values)
    raise TypeError(f"no state is known for {dataset.attrs['state']!r}")
