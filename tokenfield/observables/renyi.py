"""Rényi centres: the tokens around which clusters gather under a causal mask."""

import numpy as np

from .._check import positive
from ..states import Tokens


def renyi_centres(tokens: Tokens, delta: float, strong: bool = False) -> np.ndarray:
    """Indices of the Rényi centres: tokens farther than delta from all earlier *centres* (FORMULAS §2).

    Tokens are taken in the order of their index, and distances along the sphere, between directions. Under causal
    attention centres with `delta = c beta^{-1/2}` nearly stand still for a long time, and gather other tokens.

    Args:
        tokens: the tokens.
        delta: geodesic distance, in (0, pi).
        strong: farther than delta from all earlier *tokens*. Strong centres are some of the centres.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.renyi_centres(tkf.circle_tokens([0.0, 0.3, 0.5, 2.0]), delta=0.4)
        array([0, 2, 3])
        >>> tkf.renyi_centres(tkf.circle_tokens([0.0, 0.3, 0.5, 2.0]), delta=0.4, strong=True)
        array([0, 3])
    """
    delta = positive("delta", delta)
    if delta >= np.pi:
        raise ValueError(f"delta must be below pi, the largest distance on the sphere, got {delta!r}")
    x = np.asarray(tokens.x) / np.linalg.norm(tokens.x, axis=1, keepdims=True)
    reach = 2 * np.sin(delta / 2)  # as a chord, which keeps its accuracy when delta is small
    free, centres = np.ones(len(x), bool), []
    while free.any():
        centre = int(np.argmax(free))  # the first token out of reach of all centres so far
        near = np.linalg.norm(x - x[centre], axis=1) <= reach
        if not (strong and near[:centre].any()):
            centres.append(centre)
        free &= ~near
    return np.array(centres, int)
