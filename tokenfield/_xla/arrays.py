"""Arrays that are materialized once, products with a transpose, and arrays that are passed to JAX without compilation."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from . import on_cpu


def materialize(a: Array, never: Array) -> Array:
    """Return `a`, materialized: computed once and written to memory before anything reads it.

    Otherwise XLA would recompute it in every loop that reads it, or read it through a transpose; optimization barriers do not
    prevent this. XLA does not optimize across a branch whose condition it does not know.

    Args:
        a: any array.
        never: a condition that is never true, but whose value the compiler does not know.
    """
    return jax.lax.cond(never, jnp.zeros_like, lambda a: a, a) if on_cpu() else a


def normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any, never: Array) -> Array:
    """Return standard normal numbers, drawn only once however often they are read; `never` as in `materialize`.

    They are drawn in one dimension: the same numbers as with `shape`, but twice as fast.
    """
    if not on_cpu():
        return jax.random.normal(key, shape, dtype)
    return materialize(jax.random.normal(key, (math.prod(shape),), dtype), never).reshape(shape)


def transposed_product(a: Float[Array, "n p"], b: Float[Array, "n m"]) -> Float[Array, "p m"]:
    """Return `a^T b`, for `a` with few columns.

    XLA would fold the transpose into the product, which then reads `a` by columns. A row of zeros below `a^T` prevents it.
    """
    if not on_cpu():
        return a.T @ b
    return (jnp.pad(a.T, ((0, 1), (0, 0))) @ b)[:-1]


def from_numpy(array: np.ndarray) -> Array:
    """Return a NumPy array as a JAX array. They may share memory, so the NumPy array must not change afterwards.

    `jnp.asarray(array)` without the dtype would compile a program for every shape.
    """
    return jnp.asarray(array, array.dtype)
