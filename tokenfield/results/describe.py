"""A model as plain data: how a result records its model, and what that record determines."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from .._kinds import found, is_ours, place_of
from ..normalization import AbstractNorm, AbstractSphereNorm
from ..spaces import AbstractSpace, Euclidean, Sphere
from .digest import sha256

LARGEST_LISTED = 1024  # larger arrays are recorded by shape and hash


def describe(part: Any) -> Any:
    """Return modules as `{"kind": name, field: …}`, arrays as lists and functions by name, without fields that are None or empty.

    A class from outside tokenfield has the kind "its.module:ItsName".

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.results import describe
        >>> describe(tkf.Softmax(beta=9.0))["kind"], describe(tkf.Softmax(beta=9.0))["score"]["kind"]
        ('Softmax', 'Bilinear')
    """
    if isinstance(part, eqx.Module):
        fields = {f.name: describe(getattr(part, f.name)) for f in dataclasses.fields(part)}
        if isinstance(part, AbstractNorm):
            fields["space"] = describe(part.space)
        return {"kind": recorded_kind(type(part)), **{k: v for k, v in fields.items() if v is not None and v != []}}
    if isinstance(part, (tuple, list)):
        return [describe(item) for item in part]
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    if callable(part):
        return {"function": getattr(part, "__qualname__", type(part).__name__)}
    array = np.asarray(part)
    if array.size > LARGEST_LISTED:
        return {"shape": list(array.shape), "sha256": sha256(part)}
    return array.tolist()


def recorded_kind(kind: type) -> str:
    """Return the name that records a class: its own name in tokenfield, otherwise "module:Class"."""
    return kind.__qualname__ if is_ours(kind) else place_of(kind)


def rebuilt_space(described: Mapping[str, Any]) -> AbstractSpace:
    """Return the space that `describe` recorded; the module of a user's space must be imported already."""
    fields = dict(described)
    name = fields.pop("kind")
    kinds = {recorded_kind(each): each for each in found(AbstractSpace).values()}
    if name not in kinds:
        raise ValueError(f"the tokens live in a space of kind {name}, which is not known: import its module first")
    return kinds[name](**fields)


def compared_in(model: Mapping[str, Any]) -> AbstractSpace:
    """Return the space in which a described model compares tokens: the sphere under a norm that moves directions."""
    norm = model["norm"]
    if "space" in norm:
        return rebuilt_space(norm["space"])
    ours = {each.__name__ for each in found(AbstractSphereNorm).values()}  # for older runs, saved without this entry
    return Sphere() if norm["kind"] in ours else Euclidean()
