"""Alignment and mean length of the tokens."""

import math
from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from .._jax import in_double
from ..states import AbstractDensity, Equiangular, Tokens
from ..states.tokens import only_tokens
from .safe import lengths, over_pairs, root, units
from .series import observable


@in_double
def directions(state: Tokens) -> Float[Array, "n d"]:
    """Return `x_i/|x_i|`, even where the square of a length would overflow; 0 stays 0."""
    return units(state.x)


@observable("order parameter", range=(0.0, 1.0), rotation_invariant=True)
def order_parameter(state: Tokens | Equiangular | AbstractDensity) -> Float[Array, ""]:
    """Return `|∫ x/|x| dmu|`, the length of the mean direction: 1 for one cluster, 0 for balanced tokens (FORMULAS §10).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.order_parameter(tkf.uniform_sphere(64, 3, seed=0))
        0.15832131446983572
    """
    state = only_tokens("order_parameter", state)
    return _order(state.x, state.weights)


@observable("mean cosine", range=(-1.0, 1.0), rotation_invariant=True)
def mean_cosine(state: Tokens | Equiangular) -> Float[Array, ""]:
    """Return the mean of `<x_i,x_j>/(|x_i||x_j|)` over pairs i ≠ j, weighted by `w_i w_j`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.mean_cosine(tkf.equiangular_tokens(rho=0.3, n=8))
        0.2999999999999998
    """
    state = only_tokens("mean_cosine", state)
    if is_concrete(state.weights) and np.count_nonzero(state.weights) < 2:
        raise ValueError("mean_cosine needs at least two tokens of positive weight")
    return _mean_cosine(state.x, state.weights)


@observable("mean length of tokens", range=(0.0, math.inf), rotation_invariant=True)
def mean_length(state: Tokens | Equiangular) -> Float[Array, ""]:
    """Return `∫ |x| dmu`, the mean length of the tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.mean_length(tkf.Tokens([[3.0, 4.0], [0.0, 1.0]]))
        3.0
    """
    state = only_tokens("mean_length", state)
    return _mean_length(state.x, state.weights)


@singledispatch
def cosine_gap(state: Any) -> Any:
    """Return `1 - mean_cosine(state)`, without cancellation for states that store this gap."""
    return 1 - mean_cosine(state)


@jax.jit
def _order(x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, ""]:
    return root(jnp.sum((w @ units(x)) ** 2))


@jax.jit
def _mean_cosine(x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, ""]:
    theta = units(x)
    return over_pairs(theta, w) / over_pairs(jnp.ones_like(w)[:, None], w)


@jax.jit
def _mean_length(x: Float[Array, "n d"], w: Float[Array, " n"]) -> Float[Array, ""]:
    return w @ lengths(x)
