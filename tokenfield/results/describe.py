"""A model as plain data: how a result records its model, and what can be read from that record."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from .. import normalization

LARGEST_LISTED = 1024  # larger arrays are recorded by shape and hash


def describe(part: Any) -> Any:
    """Return modules as `{"kind": name, field: …}`, arrays as lists and functions by name, without fields that are None or empty.

    A class that is not tokenfield's has the kind "its.module:ItsName".

    Example:
        >>> import tokenfield as tkf
        >>> describe(tkf.Softmax(beta=9.0))
    """
    if isinstance(part, eqx.Module):
        fields = {f.name: describe(getattr(part, f.name)) for f in dataclasses.fields(part)}
        own = type(part).__module__.startswith("tokenfield.")
        kind = type(part).__qualname__ if own else f"{type(part).__module__}:{type(part).__qualname__}"
        return {"kind": kind, **{k: v for k, v in fields.items() if v is not None and v != []}}
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


def on_sphere(model: Mapping[str, Any]) -> bool:
    """Return True if the norm of a described model moves directions on the unit sphere, whatever it does to lengths."""
    kind = getattr(normalization, model["norm"]["kind"], None)
    return isinstance(kind, type) and issubclass(kind, normalization.AbstractSphereNorm)


def energy_beta(model: Mapping[str, Any], d: int) -> float | None:
    """Return beta such that the flow increases `∬ e^{beta<θ,θ'>} dmu dmu` of the directions θ; None if there is no such energy.

    It exists for one Softmax or Unnormalized head with A = beta I, beta >= 0 and V = I, without mask or MLP, under a norm
    that moves directions. Under a norm with gain g, attention acts on `g sqrt(d) θ`, so beta becomes `beta g^2 d`.

    Args:
        model: what `describe` returned for a Transformer.
        d: dimension of the tokens.
    """
    attention, gain = model["attention"], _gain(model["norm"], d)
    if not on_sphere(model) or "mlp" in model or "context" in model or gain is None:
        return None
    if attention["kind"] not in ("Softmax", "Unnormalized") or attention["causal"] or "positions" in attention:
        return None
    score = attention["score"]
    plain = score["kind"] == "Bilinear" and not {"A", "Q", "K"} & score.keys() and "V" not in attention["value"]
    beta = score.get("beta")
    if not plain or not isinstance(beta, (int, float)) or beta < 0:
        return None
    return float(beta) * gain**2


def _gain(norm: Mapping[str, Any], d: int) -> float | None:
    """Return the factor between directions and the input of attention; None if it differs between coordinates."""
    g = (norm.get("gain") or {}).get("g")
    if g is None:
        return 1.0
    if isinstance(g, Mapping) or np.ptp(g) != 0:
        return None
    return float(np.ravel(g)[0]) * d**0.5
