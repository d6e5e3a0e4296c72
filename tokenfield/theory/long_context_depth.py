"""Long context over many layers: n equiangular tokens stay equiangular, so a layer maps one cosine to another."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._check import count, number, reals
from .._shown import shown
from .long_context import (
    MOST_LAYERS,
    layer_contraction,
    layer_contraction_limit,
    phase,
    plain,
    residual_layer_contraction,
)


def iterated_contraction(
    rho: float, n: float, beta: ArrayLike, depth: int, residual: float | None = None
) -> np.ndarray:
    """Return the cosines after 0, 1, …, depth layers, each output normalized to length 1 (FORMULAS §7).

    `rho_{l+1} = layer_contraction(rho_l, n, beta_l)`, or `residual_layer_contraction` with the step `residual`.

    Args:
        rho: the cosine of the tokens at the start.
        n: number of tokens.
        beta: one inverse temperature, or one for each layer.
        depth: number of layers.
        residual: the step of a residual layer `N(x + residual Att(x))`; None for `N(Att(x))`.

    Returns:
        (depth + 1,) cosines.

    Example:
        >>> from tokenfield.theory.long_context_depth import iterated_contraction
        >>> iterated_contraction(0.3, n=1024, beta=10.0, depth=2)
        array([0.3       , 0.61637542, 0.9988825 ])
    """
    depth, (betas,) = count("depth", depth, 1, MOST_LAYERS), reals(beta=beta)
    betas = np.broadcast_to(betas, (depth,)) if betas.ndim == 0 else betas
    if betas.shape != (depth,):
        raise ValueError(f"beta must be a number or have one entry for each of {depth} layers, got {betas.shape}")
    cosines, n = [number("rho", rho)], number("n", n)
    for each in betas:
        here = cosines[-1]
        value = (
            layer_contraction(here, n, each)
            if residual is None
            else residual_layer_contraction(here, n, each, residual)
        )
        cosines.append(value)
    return np.array(cosines)


def iterated_contraction_limit(rho: float, gamma: float, depth: int, residual: float | None = None) -> np.ndarray:
    """Return the limits of `iterated_contraction(rho, n, gamma log n, depth)` as n grows, layer by layer.

    For rho > 0 they are iterates of `layer_contraction_limit`: for gamma below `1/(1-rho)` all tokens merge in one layer, at it
    in two, and above it never. From rho = 0 every layer multiplies S by `n^{2(1-gamma)}`, so tokens have merged after K layers
    if gamma < 1 - 1/(2K) (`orthogonal_threshold`). With a residual of step h, each layer below the threshold multiplies
    rho/(1-rho) by `(1+h)^2`.

    Example:
        >>> from tokenfield.theory.long_context_depth import iterated_contraction_limit
        >>> iterated_contraction_limit(0.5, gamma=2.0, depth=3)
        array([0.5, 0.8, 1. , 1. ])
    """
    depth, gamma, rho = count("depth", depth, 1, MOST_LAYERS), number("gamma", gamma), number("rho", rho)
    cosines = [rho]
    for layer in range(1, depth + 1):
        here = cosines[-1]
        if rho == 0 and residual is None and here == 0:
            here = float(1 - phase(np.asarray(float(gamma)), orthogonal_threshold(layer)))
            cosines.append(here)
        else:
            cosines.append(layer_contraction_limit(here, gamma, residual))
    return np.array(cosines)


def orthogonal_threshold(depth: ArrayLike) -> Any:
    """Return `1 - 1/(2 depth)`: as n grows, orthogonal tokens merge within `depth` layers iff gamma is below this.

    Derived from `layer_contraction` at rho = 0: for gamma < 1 a token's weight on itself is about `n^{gamma-1}`, and a layer
    multiplies `S = 1 + (n-1) rho` by `n^{2(1-gamma)}`; cosines reach 1 when S exceeds `n^{2 gamma - 1}`.

    Example:
        >>> from tokenfield.theory.long_context_depth import orthogonal_threshold
        >>> orthogonal_threshold([1, 2, 4])
        array([0.5  , 0.75 , 0.875])
    """
    (layers,) = reals(depth=depth)
    if not (layers >= 1).all():
        raise ValueError(f"depth must be at least 1, got {shown(depth)}")
    return plain(1 - 1 / (2 * layers))
