"""Distances between tokens within their space."""

import jax
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..attention.sums import map_rows
from ..spaces import AbstractSpace
from ..states import Tokens
from ..states.tokens import only_tokens
from .series import observable


@observable("mean distance")
def mean_distance(state: Tokens) -> Float[Array, ""]:
    """Return the mean of `dist(x_i, x_j)` over pairs i ≠ j, weighted by `w_i w_j`: geodesic distances in the tokens' space.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.mean_distance(tkf.circle_tokens([0.0, 1.0, 2.0]))
        1.3333333333333333
    """
    state = only_tokens("mean_distance", state)
    if is_concrete(state.weights) and np.sum(np.asarray(state.weights) ** 2) >= 1:
        raise ValueError("mean_distance needs at least two tokens of positive weight")
    return _mean(state.x, state.weights, state.space)


@jax.jit
def _mean(x: Float[Array, "n d"], w: Float[Array, " n"], space: AbstractSpace) -> Float[Array, ""]:
    n, d = x.shape
    rows = map_rows(lambda rows: space.distance(rows[:, None, :], x[None, :, :]) @ w, n, n * d, x)
    return w @ rows / (1 - w @ w)
