"""Experiments over many seeds, each one function that returns a labelled dataset."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .normalization import normalization_study as normalization_study

__all__, __getattr__ = lazy(__name__, {"normalization": "normalization_study"})
