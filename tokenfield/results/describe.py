"""A model as plain data: what a result says of how it was made."""

import dataclasses
import hashlib
from typing import Any

import equinox as eqx
import numpy as np

LARGEST_LISTED = 1024  # arrays with more entries are given by shape and hash


def describe(part: Any) -> Any:
    """Modules as `{"kind": name, field: …}`, arrays as lists, functions by name; None fields are left out.

    Example:
        >>> import tokenfield as tkf
        >>> describe(tkf.Softmax(beta=9.0))
    """
    if isinstance(part, eqx.Module):
        fields = {f.name: describe(getattr(part, f.name)) for f in dataclasses.fields(part)}
        return {"kind": type(part).__name__, **{k: v for k, v in fields.items() if v is not None}}
    if isinstance(part, (tuple, list)):
        return [describe(item) for item in part]
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    if callable(part):
        return {"function": getattr(part, "__qualname__", type(part).__name__)}
    array = np.asarray(part)
    if array.size > LARGEST_LISTED:
        return {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
    return array.tolist()
