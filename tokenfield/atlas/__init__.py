"""Claims from the literature, checked by experiment."""

from .._lazy import lazy

__all__, __getattr__, __dir__ = lazy(__name__, {"runner": "all_claims choose", "claim": "Claim Evidence Check"})
