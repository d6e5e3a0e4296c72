"""Experiments over many seeds, each one function that returns labeled results."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .gaussian_cones import cone_study as cone_study
    from .gaussian_ranks import LimitRanks as LimitRanks
    from .gaussian_ranks import limit_ranks as limit_ranks
    from .noisy_order import noisy_order_study as noisy_order_study
    from .normalization import normalization_study as normalization_study

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "gaussian_cones": "cone_study",
        "gaussian_ranks": "limit_ranks LimitRanks",
        "noisy_order": "noisy_order_study",
        "normalization": "normalization_study",
    },
)
