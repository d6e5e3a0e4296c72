"""Experiments over many seeds, each one function that returns a labelled dataset."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .noisy_order import noisy_order_study as noisy_order_study
    from .normalization import normalization_study as normalization_study

__all__, __getattr__ = lazy(__name__, {"noisy_order": "noisy_order_study", "normalization": "normalization_study"})
