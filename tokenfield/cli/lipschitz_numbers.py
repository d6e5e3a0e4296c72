"""The results of `tokenfield lipschitz`, as plain data."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray

import tokenfield as tkf

from .._check import as_float, count
from ..config.build import from_flags
from ..lipschitz import Growth, adversarial, data_bounds, data_model, local
from ..lipschitz.bounds import attention_bounds
from ..results.labels import with_labels
from ..results.provenance import provenance

LABELS = {"constant": "local Lipschitz constant of attention", "n": "number of tokens", "sample": "sample"}


def kernel(
    name: str, beta: float | None, A: Any, V: Any, causal: bool, d: int | None, sets: Sequence[str] = ()
) -> tuple[int, tkf.attention.AbstractAttention]:
    """Return the dimension (that of A or V, d, or 8) and the attention."""
    for key, matrix in (("A", A), ("V", V)):
        if matrix is None:
            continue
        width = as_float(f"--{key}", matrix, 2).shape[1]
        if d is not None and width != d:
            raise ValueError(f"--{key} must have {d} columns for tokens in R^{d}, got {width}")
        d = width
    made = from_flags("attention", name, {"beta": beta, "A": A, "V": V, "causal": causal or None}, sets)
    d = 8 if d is None else count("d", d)
    made.check(d)
    return d, made


def sampler(data: str, d: int, R: float | None) -> Callable[[int, int], tkf.Tokens]:
    """Return a function of (n, seed) that samples tokens of a data model, scaled so that the longest has length R."""
    try:
        draw = data_model(data, d)
    except ValueError as error:
        raise ValueError(f"--data: {error}") from None
    if R is None:
        return draw

    def scaled(n: int, seed: int) -> tkf.Tokens:
        x = draw(n, seed).x
        return tkf.Tokens(R * x / jnp.linalg.norm(x, axis=1).max())

    return scaled


def at_tokens(
    attention: Any, x: tkf.Tokens, R: float | None, rtol: float, top_k: int, max_products: int
) -> dict[str, Any]:
    """Return the local constant with its interval, and the bounds if they are known."""
    found = local(attention, x, rtol=rtol, top_k=top_k, max_products=max_products)
    radius = float(jnp.linalg.norm(x.x, axis=1).max()) if R is None else R
    limits = _bounds(attention, x.n, radius, x.d)
    return {
        "constant": found.constant,
        "interval": found.intervals[0].tolist(),
        "values": found.values.tolist(),
        "intervals": found.intervals.tolist(),
        "products": found.products,
        "converged": found.converged,
        "log_unit": found.log_unit,
        "bounds": None if limits is None else limits | data_bounds(attention, x)._asdict(),
    }


def worst(attention: Any, n: int, R: float, d: int, starts: int, steps: int, seed: int) -> dict[str, Any]:
    """Return the largest constant found for tokens of length at most R, these tokens, and the bounds."""
    found = adversarial(attention, n, R, d=d, starts=starts, steps=steps, seed=seed)
    return {
        "constant": found.constant,
        "x": found.x.tolist(),
        "explicit_constant": found.explicit_constant,
        "found": [value if math.isfinite(value) else None for value in found.found.tolist()],
        "log_unit": float(attention.log_unit),
        "bounds": _bounds(attention, n, R, d),
    }


def of_growth(found: Growth) -> dict[str, Any]:
    """Return the constants and the fitted power; its interval is null if there are only two points."""
    law = found.law
    return {
        "lengths": found.lengths.tolist(),
        "constants": found.constants.tolist(),
        "power": law.power,
        "power_interval": list(law.interval) if math.isfinite(law.interval[0]) else None,
        "factor": law.factor,
        "log_unit": found.log_unit,
        "confidence": law.confidence,
        "converged": found.converged,
    }


def dataset(found: Growth, inputs: dict[str, Any]) -> xarray.Dataset:
    """Return the constants over (n, sample), with the fitted law in the attributes."""
    law = found.law
    low, high = law.interval
    attributes = {"power": law.power, "power_low": low, "power_high": high, "factor": law.factor}
    attributes |= {"log_unit": found.log_unit} if found.log_unit else {}
    made = xarray.Dataset(
        {"constant": (("n", "sample"), found.constants)},
        coords={"n": found.lengths, "sample": np.arange(found.constants.shape[1])},
        attrs={**attributes, "converged": int(found.converged), "config": json.dumps(inputs), **provenance()},
    )
    return with_labels(made, LABELS)


def _bounds(attention: Any, n: int, R: float, d: int) -> dict[str, Any] | None:
    """Return the bounds in the ball, for softmax; infinity becomes null, with a note."""
    found = attention_bounds(attention, R, n, d)
    if found is None:
        return None
    limits = found._asdict()
    del limits["data"], limits["sharp_data"]
    mean_field = limits["mean_field"] if math.isfinite(limits["mean_field"]) else None
    return {"R": R, **limits, "mean_field": mean_field, "notes": list(limits["notes"])}
