"""Rényi centers: the tokens around which clusters form under a causal mask."""

import numpy as np

from .._check import flag, positive
from .._shown import shown
from ..states import Tokens
from ..states.tokens import only_tokens
from .safe import units


def renyi_centers(tokens: Tokens, delta: float, strong: bool = False) -> np.ndarray:
    """Return the indices of the Rényi centers: tokens farther than delta from all earlier *centers* (FORMULAS §2).

    Tokens are ordered by index. Distances are geodesic, between directions. Under causal attention, centers with
    `delta = c beta^{-1/2}` barely move for a long time and attract other tokens.

    Args:
        tokens: the tokens.
        delta: geodesic distance, in (0, pi).
        strong: use the tokens farther than delta from all earlier *tokens*. They are a subset of the centers.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.renyi_centers(tkf.circle_tokens([0.0, 0.3, 0.5, 2.0]), delta=0.4)
        array([0, 2, 3])
        >>> tkf.renyi_centers(tkf.circle_tokens([0.0, 0.3, 0.5, 2.0]), delta=0.4, strong=True)
        array([0, 3])
    """
    strong = flag("strong", strong)
    delta = positive("delta", delta)
    if delta >= np.pi:
        raise ValueError(f"delta must be below pi, the largest distance on the sphere, got {shown(delta)}")
    x = np.asarray(units(only_tokens("renyi_centers", tokens).x))
    if not x.any(axis=1).all():
        raise ValueError(f"renyi_centers compares directions, but token {int(np.argmin(x.any(axis=1)))} is zero")
    reach = 2 * np.sin(delta / 2)  # as a chord, which is accurate for small delta
    free, centers = np.ones(len(x), bool), []
    while free.any():
        center = int(np.argmax(free))  # the first token out of reach of all centers so far
        near = np.linalg.norm(x - x[center], axis=1) <= reach
        if not (strong and near[:center].any()):
            centers.append(center)
        free &= ~near
    return np.array(centers, int)
