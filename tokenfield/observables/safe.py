"""Lengths and directions with finite derivatives everywhere; where there is no derivative, it is 0."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def root(square: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Return `sqrt(square)`, or 0 with derivative 0 where the square is not positive. NaNs propagate."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), jnp.where(jnp.isnan(square), jnp.nan, 0))


@jax.jit
def lengths(x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
    """Return `|x|`, even where its square would overflow."""
    scale = _scale(x)
    return scale[..., 0] * root(jnp.sum((x / scale) ** 2, axis=-1))


@jax.jit
def units(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Return `x/|x|`, even where the square of a length would overflow; 0 stays 0."""
    x = x / _scale(x)
    length = root(jnp.sum(x * x, axis=-1, keepdims=True))
    positive = length > 0
    return x * jnp.where(positive, 1 / jnp.where(positive, length, 1), 0)


def over_pairs(v: Float[Array, "n k"], w: Float[Array, " n"]) -> Float[Array, ""]:
    """Return `sum_{i≠j} w_i w_j <v_i, v_j>`, accurate even if one weight is much larger than all others."""
    heaviest = jnp.argmax(w)
    others = w.at[heaviest].set(0)
    rest = others @ v
    return 2 * w[heaviest] * (v[heaviest] @ rest) + (rest @ rest - (others * others) @ jnp.sum(v * v, axis=1))


def _scale(x: Float[Array, "*n d"]) -> Float[Array, "*n 1"]:
    """Return the largest entry of each row. Derivatives treat it as a constant: lengths and directions do not depend on it."""
    largest = jax.lax.stop_gradient(jnp.abs(x).max(axis=-1, keepdims=True))
    return jnp.where(largest > 0, jnp.maximum(largest, jnp.finfo(x.dtype).tiny), 1)
