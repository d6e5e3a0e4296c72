"""Cosines of pairs of tokens."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import number
from ..attention.sums import map_rows
from ..states import Equiangular, Tokens
from ..states.tokens import only_tokens
from .safe import root, units
from .series import observable

MOST_TOKENS = 4096


@observable("cosine", dims=("pair",), range=(-1.0, 1.0), rotation_invariant=True)
def pairwise_cosines(state: Tokens) -> Float[Array, " pairs"]:
    """Return all cosines `<x_i,x_j>/(|x_i||x_j|)`, i < j, as a vector of length n(n-1)/2.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.pairwise_cosines(tkf.equiangular_tokens(rho=0.3, n=4))
        array([0.3, 0.3, 0.3, 0.3, 0.3, 0.3])
    """
    state = only_tokens("pairwise_cosines", state)
    if state.n > MOST_TOKENS:
        raise ValueError(
            f"pairwise_cosines stores all pairs and takes at most {MOST_TOKENS} tokens, got {state.n}: use a subset"
        )
    return _cosines(state.x)


@observable("smallest cosine", range=(-1.0, 1.0), rotation_invariant=True)
def smallest_cosine(state: Tokens | Equiangular) -> Float[Array, ""]:
    """Return the smallest `<x_i,x_j>/(|x_i||x_j|)` over all pairs; 1 for a single token.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.smallest_cosine(tkf.Tokens([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]))
        0.0
    """
    state = only_tokens("smallest_cosine", state)
    return _smallest_cosine(state.x)


@observable("fraction of pairs with cosine above {threshold}", range=(0.0, 1.0), rotation_invariant=True)
def fraction_above(state: Tokens | Equiangular, threshold: float = 0.999) -> Float[Array, ""]:
    """Return the fraction of pairs i ≠ j with a cosine above a threshold. All pairs count equally, whatever their weights.

    It is piecewise constant, so its derivative is 0: `soft_cluster_count` is a smooth alternative.

    Args:
        state: the tokens, at least two.
        threshold: a cosine in [-1, 1].

    Example:
        >>> import tokenfield as tkf
        >>> tkf.fraction_above(tkf.Tokens([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
        0.3333333333333333
    """
    state = only_tokens("fraction_above", state)
    if state.n < 2:
        raise ValueError(f"fraction_above needs at least two tokens, got {state.n}")
    return _fraction_above(state.x, number("threshold", threshold, -1, 1))


@jax.jit
def _cosines(x: Float[Array, "n d"]) -> Float[Array, " pairs"]:
    theta = units(x)
    return jnp.clip((theta @ theta.T)[np.triu_indices(x.shape[0], 1)], -1, 1)


@jax.jit
def _smallest_cosine(x: Float[Array, "n d"]) -> Float[Array, ""]:
    theta, n = units(x), x.shape[0]
    return map_rows(lambda rows: jnp.min(rows @ theta.T, axis=1), n, n, theta).min()


@jax.jit
def _fraction_above(x: Float[Array, "n d"], threshold: float) -> Float[Array, ""]:
    n = x.shape[0]
    square = jnp.sum(x * x, axis=-1)
    length = root(square)
    above = lambda rows, own: jnp.sum(rows @ x.T > threshold * length * own[:, None], axis=1)  # noqa: E731
    return (map_rows(above, n, n, x, length).sum() - jnp.sum(square > threshold * square)) / (n * (n - 1))
