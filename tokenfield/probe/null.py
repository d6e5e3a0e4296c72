"""The null model: the same architecture with random weights."""

import copy
import dataclasses
from typing import TYPE_CHECKING

from .._check import count

if TYPE_CHECKING:
    from .loading import Loaded


def random_twin(loaded: "Loaded", seed: int = 0) -> "Loaded":
    """Return the same architecture with random weights, as before training.

    The model is built from its own config, so every matrix, bias and norm is drawn by the architecture's own rule
    (BERT: normal with standard deviation `initializer_range`, biases 0, norms 1; a block that layers share is drawn
    once). A probe of it measures the effect of the architecture alone: a difference from it is
    the effect of training. The state of torch's random generator is not changed.

    Args:
        loaded: the result of `load`.
        seed: seed of the weights; the same seed gives the same bits.

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
