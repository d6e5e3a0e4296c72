"""Effective rank: how many directions the tokens use."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import flag
from ..states import Gaussian, Tokens
from ..states.tokens import only_tokens
from .series import observable


@observable("effective rank", range=(1.0, math.inf), rotation_invariant=True, in_loop=False)
def effective_rank(state: Tokens | Gaussian, centered: bool = False) -> Float[Array, ""]:
    """Return `exp(H(p))`, where p are the normalized singular values of the weighted token matrix (Roy and Vetterli 2007).

    It is 1 if all tokens are on one line through 0, and min(n, d) if they fill the space evenly. Its derivative is taken at
    fixed rank: singular values that are 0 stay 0.

    Args:
        state: the tokens, or a Gaussian.
        centered: subtract the mean first, to get the rank of the spread instead of that of the tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.effective_rank(tkf.equiangular_tokens(rho=0.0, n=5))
        5.000000000000001
    """
    state = only_tokens("effective_rank", state)
    x = state.x - state.weights @ state.x if flag("centered", centered) else state.x
    return rank_of_tokens(x, state.weights)


def spread_over(values: Float[Array, " k"] | np.ndarray) -> Float[Array, ""]:
    """Return `exp(H(p))`, where p are singular values divided by their sum; 0 if all are 0. NumPy arrays need no compilation."""
    xp: Any = np if isinstance(values, np.ndarray) else jnp
    total = xp.sum(values)
    p = values / xp.where(total > 0, total, 1)
    entropy = -xp.sum(p * xp.log(xp.where(p > 0, p, 1)))
    return xp.where(total > 0, xp.exp(entropy), total)


@jax.custom_jvp
@jax.jit
def rank_of_tokens(x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, ""]:
    """Return the effective rank of `sum_i w_i x_i x_i^T` from the singular values of the tokens, without loss of accuracy."""
    return spread_over(jnp.linalg.svd(jnp.sqrt(w)[:, None] * x, full_matrices=False, compute_uv=False))


@rank_of_tokens.defjvp
def _(primals, tangents):
    """Return the derivative of a spectral function, which is smooth where singular values coincide (Lewis 1996)."""
    (x, w), (dx, dw) = primals, tangents
    _, values, vectors = jnp.linalg.svd(jnp.sqrt(w)[:, None] * x, full_matrices=False)
    slope = _slope(values, max(x.shape))
    along, change = x @ vectors.T, dx @ vectors.T
    return spread_over(values), slope @ (dw @ along**2 + 2 * w @ (along * change))


@jax.custom_jvp
@jax.jit
def rank_of_moment(moment: Float[Array, "d d"]) -> Float[Array, ""]:
    """Return the effective rank of a symmetric matrix of second moments."""
    return spread_over(jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(moment), 0)))


@rank_of_moment.defjvp
def _(primals, tangents):
    squares, vectors = jnp.linalg.eigh(primals[0])
    values = jnp.sqrt(jnp.maximum(squares, 0))
    # Squares are accurate to rounding only, so their roots are accurate to the root of rounding.
    slope = _slope(values, values.shape[0] ** 0.5 * jnp.finfo(values.dtype).eps ** -0.5)
    return spread_over(values), slope @ jnp.sum(vectors * (tangents[0] @ vectors), axis=0)


def _slope(values: Float[Array, " k"], roundings: float) -> Float[Array, " k"]:
    """Return the derivative of `spread_over` with respect to the *squares* of the values; 0 for values at rounding level."""
    total = jnp.sum(values)
    present = values > roundings * jnp.finfo(values.dtype).eps * jnp.max(values)
    safe, total = jnp.where(present, values, 1), jnp.where(total > 0, total, 1)
    rank = spread_over(values)
    log_rank = jnp.log(jnp.where(rank > 0, rank, 1))
    return jnp.where(present, -rank * (jnp.log(safe / total) + log_rank) / (2 * safe * total), 0)
