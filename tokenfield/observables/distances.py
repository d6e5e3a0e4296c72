"""Distances between tokens within their space."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..attention.sums import map_rows
from ..spaces import AbstractSpace, Euclidean
from ..states import Equiangular, Tokens
from ..states.tokens import only_tokens
from .safe import over_pairs, root
from .series import observable


@observable("mean distance", rotation_invariant=True)
def mean_distance(state: Tokens | Equiangular) -> Float[Array, ""]:
    """Return the mean of `dist(x_i, x_j)` over pairs i ≠ j, weighted by `w_i w_j`.

    Distances are geodesic in the space of the tokens if it was given, `Tokens(x, space=...)`, otherwise `|x_i - x_j|`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.mean_distance(tkf.Tokens([[0.0, 0.0], [3.0, 4.0]]))
        5.0
    """
    state = only_tokens("mean_distance", state)
    if is_concrete(state.weights) and np.count_nonzero(state.weights) < 2:
        raise ValueError("mean_distance needs at least two tokens of positive weight")
    return _mean(state.x, state.weights, state.given_space or Euclidean())


@mean_distance.register(Equiangular)
def _(state: Equiangular) -> Float[Array, ""]:
    """Return `radius sqrt(2 (1 - rho))`, the distance of every pair."""
    return state.radius * root(2 * state.gap)


@jax.jit
def _mean(x: Float[Array, "n d"], w: Float[Array, " n"], space: AbstractSpace) -> Float[Array, ""]:
    n, d = x.shape
    rows = map_rows(lambda rows: space.distance(rows[:, None, :], x[None, :, :]) @ w, n, n * d, x)
    return w @ rows / over_pairs(jnp.ones_like(w)[:, None], w)
