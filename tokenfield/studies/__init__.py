"""Experiments over many seeds, each one function that returns a labelled dataset."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .normalization import normalization_study as normalization_study

# Imported when first used.
_HOME = {"normalization_study": "normalization"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tokenfield.studies' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
