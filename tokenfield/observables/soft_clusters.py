"""A smooth number of clusters and single tokens."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import is_concrete, one_of, positive
from ..attention.sums import divide, map_rows
from ..states import Equiangular, Tokens
from ..states.tokens import only_tokens
from .safe import units
from .series import observable


@observable("smooth number of clusters and single tokens", range=(0.0, math.inf), rotation_invariant=True)
def soft_cluster_count(state: Tokens | Equiangular, tol: float = 1e-3, metric: str = "cosine") -> Float[Array, ""]:
    """Return `∫ dmu(x) / ∫ e^{-|x-y|^2/r^2} dmu(y)`, which is k for k clusters far apart, whatever their sizes and weights.

    It is a smooth counterpart of `len(clusters(state).sizes)`, for gradients: a single token counts as 1, and each token by its
    share of the mass within distance about r.
    Two tokens of equal weight at distance s count `2/(1 + e^{-(s/r)^2})`. It is the diversity of order 0 of the measure
    (Leinster and Cobbold 2012), between 1 and n.

    Args:
        state: the tokens.
        tol: as for `clusters`: `r = sqrt(2 tol)` between directions, so that the kernel is `e^{-(1 - cosine)/tol}`, and
            `r = tol` between points.
        metric: "cosine" compares directions, "distance" compares points of R^d.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.soft_cluster_count(tkf.Tokens([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
        2.0
    """
    state = only_tokens("soft_cluster_count", state)
    tol = _tolerance(tol)
    if one_of("metric", metric, ("cosine", "distance")) == "cosine":
        return _count(units(state.x), state.weights, 2 * tol)
    return _count(state.x, state.weights, tol**2)


@soft_cluster_count.register(Equiangular)
def _(state: Equiangular, tol: float = 1e-3, metric: str = "cosine") -> Float[Array, ""]:
    """Return `n / (1 + (n-1) e^{-(1-rho)/tol})` (for the cosine metric)."""
    tol, square = _tolerance(tol), 2 * state.gap
    if one_of("metric", metric, ("cosine", "distance")) == "cosine":
        return state.n / (1 + (state.n - 1) * jnp.exp(-square / (2 * tol)))
    return state.n / (1 + (state.n - 1) * jnp.exp(-square * state.radius**2 / tol**2))


def _tolerance(tol: float) -> float:
    return positive("tol", tol) if is_concrete(tol) else tol


@jax.jit
def _count(x: Float[Array, "n d"], w: Float[Array, " n"], reach_squared: float) -> Float[Array, ""]:
    n, d = x.shape

    @jax.checkpoint
    def near(rows: Float[Array, "b d"]) -> Float[Array, " b"]:
        # From differences: |x|^2 + |y|^2 - 2<x,y> would lose all digits for tokens that are close together.
        square = jnp.sum((rows[:, None, :] - x[None, :, :]) ** 2, axis=-1)
        return jnp.exp(-square / reach_squared) @ w

    return jnp.sum(divide(w, map_rows(near, n, n * d, x)))
