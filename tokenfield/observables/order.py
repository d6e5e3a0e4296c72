"""How aligned the tokens are."""

from functools import singledispatch

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..normalization.base import unit
from ..states import AbstractDensity, Equiangular, Tokens
from ..states.tokens import only_tokens

MOST_TOKENS = 4096


def directions(state: Tokens) -> Float[Array, "n d"]:
    """`x_i/|x_i|`, also where the square of a length would overflow; 0 stays 0."""
    return unit(state.x / jnp.maximum(jnp.abs(state.x).max(axis=1, keepdims=True), np.finfo(float).tiny))


@singledispatch
def order_parameter(state: Tokens | Equiangular | AbstractDensity) -> float:
    """`|∫ x/|x| dmu|`, the length of the mean direction: 1 for one cluster, 0 for balanced tokens (FORMULAS §10).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.order_parameter(tkf.uniform_sphere(64, 3, seed=0))
    """
    state = only_tokens("order_parameter", state)
    return float(jnp.linalg.norm(state.weights @ directions(state)))


@singledispatch
def mean_cosine(state: Tokens | Equiangular) -> float:
    """The mean of `<x_i,x_j>/(|x_i||x_j|)` over pairs i ≠ j, weighted by `w_i w_j`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.mean_cosine(tkf.equiangular_tokens(rho=0.3, n=8))
    """
    state = only_tokens("mean_cosine", state)
    w, self_weight = state.weights, float(state.weights @ state.weights)
    if self_weight >= 1:
        raise ValueError("mean_cosine needs at least two tokens of positive weight")
    theta = directions(state)
    return float((jnp.sum((w @ theta) ** 2) - (w * w) @ (theta * theta).sum(axis=1)) / (1 - self_weight))


def pairwise_cosines(state: Tokens) -> np.ndarray:
    """All cosines `<x_i,x_j>/(|x_i||x_j|)`, i < j, as one vector of length n(n-1)/2.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.pairwise_cosines(tkf.equiangular_tokens(rho=0.3, n=4))
    """
    state = only_tokens("pairwise_cosines", state)
    if state.n > MOST_TOKENS:
        raise ValueError(
            f"pairwise_cosines holds all pairs and takes at most {MOST_TOKENS} tokens, got {state.n}: take a subset"
        )
    theta = np.asarray(directions(state))
    return np.clip((theta @ theta.T)[np.triu_indices(state.n, 1)], -1, 1)
