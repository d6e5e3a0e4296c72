"""Names and units of the variables of a dataset, as xarray and its plots read them."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

LABELS = {
    "time": "time",
    "log_time": "natural logarithm of time",
    "x": "coordinates of tokens",
    "weights": "weights of tokens",
    "positions": "positions of tokens",
    "cluster": "cluster of each token",
    "scaled": "coordinates of rescaled tokens",
    "log_scale": "natural logarithm of the scale of tokens",
    "mean": "mean",
    "cov": "covariance",
    "rho": "cosine between any two tokens",
    "gap": "one minus the cosine between any two tokens",
    "radius": "length of tokens",
    "coefficients": "coefficients of the density in harmonics",
    "seed": "seed of the noise",
}


def with_labels(
    dataset: "xarray.Dataset", names: Mapping[str, str], units: Mapping[str, str] | None = None
) -> "xarray.Dataset":
    """Return a dataset whose variables and coordinates all have a `long_name` and `units`; existing ones are not changed.

    Args:
        dataset: any dataset.
        names: long names; by default the name of the variable.
        units: units; "1" by default.
    """
    made = dataset.copy()
    for key, variable in made.variables.items():
        label = {
            "long_name": names.get(str(key), str(key).replace("_", " ")),
            "units": (units or {}).get(str(key), "1"),
        }
        variable.attrs = label | variable.attrs
    return made


def labeled_run(dataset: "xarray.Dataset") -> "xarray.Dataset":
    """Return the dataset of a run or an ensemble with names and units. Time has the unit of the run."""
    exponent = float(dataset.attrs.get("log_time_unit", 0.0))
    unit = "1" if exponent == 0 else f"exp({exponent:g})"
    by_layer = json.loads(dataset.attrs.get("config", "{}")).get("step") == 1 and exponent == 0
    names = LABELS | ({"time": "layer"} if by_layer else {})
    names |= {f"end_{name}": f"{text}, at the end of the run" for name, text in names.items()}
    return with_labels(dataset, names, {"time": unit, "end_time": unit})
