"""Families of architectures: where their blocks are, and how attention is extracted from a block.

To add one, write a file like `bert.py` and put it into the table.
"""

from typing import Any

from .albert import Albert
from .base import AbstractFamily as AbstractFamily
from .base import BlockWeights as BlockWeights
from .base import HeadWeights as HeadWeights
from .bert import Bert
from .gpt2 import GPT2
from .llama import Llama

FAMILIES: tuple[AbstractFamily, ...] = (Bert(), Albert(), Llama(), GPT2())


def family_of(config: Any) -> AbstractFamily | None:
    """Return the family of a config, or None."""
    name = getattr(config, "model_type", None)
    return next((family for family in FAMILIES if name in family.model_types), None)
