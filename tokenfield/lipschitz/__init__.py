"""How much one attention layer can stretch: its Lipschitz constant on tokens in a ball."""

from .bounds import Bounds as Bounds
from .bounds import bounds as bounds
from .gap import score_gap as score_gap

__all__ = ["Bounds", "bounds", "score_gap"]
