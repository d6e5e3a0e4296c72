"""The null model: the same architecture with random weights."""

import copy
import dataclasses
from typing import TYPE_CHECKING

from .._check import count

if TYPE_CHECKING:
    from .loading import Loaded


def random_twin(loaded: "Loaded", seed: int = 0) -> "Loaded":
    """The same architecture with the weights that its training would have begun from.

    The model is made anew from its own config, so every matrix, bias and norm is drawn by the architecture's own rule
    (BERT: normal with standard deviation `initializer_range`, biases 0, norms 1; a block that layers share is drawn
    once). What the probe measures on it is what the architecture alone does to the texts: a difference from it is
    what training has learned. The generator of torch is left as it was.

    Args:
        loaded: what `load` gave.
        seed: of the weights; the same seed gives the same bits.

    Example:
        >>> from tokenfield.probe.null import random_twin  # doctest: +SKIP
        >>> random_twin(loaded, seed=0)  # doctest: +SKIP
    """
    import torch

    seed = count("seed", seed, 0)
    config = copy.deepcopy(loaded.model.config)
    if getattr(config, "quantization_config", None) is not None:
        del config.quantization_config  # the twin is drawn in full precision
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = type(loaded.model)(config)
    model = model.to(dtype=next(loaded.model.parameters()).dtype).eval().requires_grad_(False)
    return dataclasses.replace(loaded, model=model)
