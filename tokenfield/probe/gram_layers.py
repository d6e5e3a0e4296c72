"""A stack of layers in terms of its Gram matrix: causal attention on initially equiangular tokens."""

import numpy as np
from numpy.typing import ArrayLike

from ..normalization import AbstractSphereNorm
from ..theory.layer_curves import checked_start, current, relative_step


def gram_layers(
    norm: AbstractSphereNorm,
    rho0: float,
    n: int,
    betas: ArrayLike,
    *,
    causal: bool = False,
    rotated: bool = False,
    step: float = 1.0,
) -> np.ndarray:
    """Return the mean cosine before and after each layer, for n tokens that start equiangular (FORMULAS §7).

    A layer maps directions theta to `N(theta + c P theta)`, where P is the softmax of `beta G` and `G = theta theta^T`. It needs
    only G: `(I + cP) G (I + cP)^T`, normalized. With values rotated by a random orthogonal matrix, the added vector is
    orthogonal to every token in high dimension, and G becomes `G + c P G P^T c`, normalized: the recursion for random
    weights (FORMULAS §7) at a given score.

    Args:
        norm: the norm rule; it sets c = h (Post-LN), h/r_i (Pre-LN), h/(r_i |A_i|) (Peri-LN), with lengths r_i from 1.
        rho0: initial cosine.
        n: number of tokens; the cost is n^3 per layer.
        betas: the inverse temperature of each layer.
        causal: token i attends to tokens 1…i.
        rotated: rotate the values by a random orthogonal matrix.
        step: the step h.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.probe.gram_layers import gram_layers
        >>> gram_layers(tkf.PostLN(), 0.2, 16, [1.0, 2.0], causal=True)
        array([0.2       , 0.42196102, 0.61416784])
    """
    rho0, _ = checked_start(norm, n, rho0, 1.0)
    G, r = np.full((n, n), rho0), np.ones(n)
    np.fill_diagonal(G, 1.0)
    seen = np.tri(n, dtype=bool) if causal else np.ones((n, n), bool)
    found = [rho0]
    for layer, beta in enumerate(np.asarray(betas, float)):
        s = np.where(seen, beta * G, -np.inf)
        P = np.exp(s - s.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        rule = current(norm, layer * step)
        added = P @ G @ P.T
        length = np.sqrt(np.maximum(np.diag(added), 0))
        c = relative_step(rule, layer * step, r, step) * np.ones(n)
        if rule.scale_free:
            c = np.divide(c, length, out=np.zeros(n), where=length > 0)
        if rotated:
            G = G + c[:, None] * added * c
        else:
            M = np.eye(n) + c[:, None] * P
            G = M @ G @ M.T
        size = np.sqrt(np.diag(G))
        G, r = G / size[:, None] / size, r * size if rule.radial else r
        np.fill_diagonal(G, 1.0)
        found.append(float((G.sum() - n) / (n * (n - 1))))
    return np.array(found)
