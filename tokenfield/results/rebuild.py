"""Rebuild a model from the plain data that `describe` recorded."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import equinox as eqx
import jax.numpy as jnp

from ..normalization import PostLN
from ..spaces import Sphere
from ..transformer import Transformer
from .describe import compared_in, describe

HOMES = ("attention", "normalization", "noise", "mlp", "states", "spaces", "transformer")
PARTS = tuple(f"tokenfield.{part}" for part in HOMES)


def rebuilt(model: Mapping[str, Any]) -> Transformer:
    """Return the Transformer that `describe` recorded; raise ValueError if the record is not complete.

    Functions of time, classes from outside tokenfield, and arrays too large to be listed are recorded only by name.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.results import describe, rebuilt
        >>> rebuilt(describe(tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())))
        Transformer(Softmax(beta=9.0), norm=PostLN())
    """
    found = _module("model", model)
    if not isinstance(found, Transformer):
        raise ValueError(f"model: the record is of a {type(found).__name__}, not of a Transformer")
    return found


def part_with_energy(model: Mapping[str, Any]) -> Transformer:
    """Return the part of a recorded model that its energy depends on; raise ValueError if the record of it is not complete.

    This is the model without its noise. Of a norm of your own, which cannot be rebuilt, it depends on the gain.
    """
    norm = model["norm"]
    if ":" in norm["kind"] and isinstance(compared_in(model), Sphere):
        gain = norm.get("gain")
        norm = describe(PostLN()) | ({"gain": gain} if isinstance(gain, Mapping) else {})
    return rebuilt({**model, "norm": norm, "noise": None})


def _module(name: str, record: Mapping[str, Any]) -> eqx.Module:
    if "kind" not in record:
        what = "a function" if "function" in record else "an array too large to be listed"
        raise ValueError(f"{name} is {what}, which the run does not record")
    kind = next((kind for kind in _classes(eqx.Module) if kind.__name__ == record["kind"]), None)
    if kind is None:
        raise ValueError(f"{name} is {record['kind']}, which is not a class of tokenfield")
    made: Any = object.__new__(kind)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        object.__setattr__(made, field.name, _value(f"{name}.{field.name}", field, record.get(field.name)))
    return made


def _value(name: str, field: dataclasses.Field, value: Any) -> Any:
    """Return the value of a field. Empty tuples are recorded as missing, like None."""
    if value is None:
        return () if get_origin(field.type) is tuple else None
    static = bool(field.metadata.get("static"))
    if isinstance(value, list) and any(get_origin(hint) is tuple for hint in (field.type, *get_args(field.type))):
        return tuple(_item(f"{name}[{index}]", static, item) for index, item in enumerate(value))
    return _item(name, static, value)


def _item(name: str, static: bool, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _module(name, value)
    return value if static else jnp.asarray(value, float)


def _classes(base: type) -> Iterator[type]:
    """Return the classes of tokenfield's models that derive from `base`."""
    kinds: list[type] = base.__subclasses__()
    for kind in kinds:
        if kind.__module__.startswith(PARTS):
            yield kind
        yield from _classes(kind)
