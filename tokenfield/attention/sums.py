"""Sums `sum_j c_ij values_j` over all pairs of tokens, in blocks: memory O(n * block), never n x n."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

BLOCK_ENTRIES = 1 << 18  # scores held at once: 2 MB in double precision, within a core's cache


def map_rows(body: Callable, n: int, width: int, *arrays: Array, entries: int = BLOCK_ENTRIES) -> Array:
    """Return `body(*arrays)`, computed in blocks of rows to save memory.

    Args:
        body: takes a block of b rows of each array and returns (b, ...).
        n: number of rows.
        width: how many numbers `body` stores per row.
        entries: how many numbers it may store per block.
    """
    block = max(16, entries // width)
    if n <= block:
        return body(*arrays)
    blocks = -(-n // block)
    block = -(-n // blocks)
    padded = [jnp.pad(a, [(0, blocks * block - n)] + [(0, 0)] * (a.ndim - 1), mode="edge") for a in arrays]
    cut = [a.reshape(blocks, block, *a.shape[1:]) for a in padded]
    out = jax.lax.map(jax.checkpoint(lambda rows: body(*rows)), tuple(cut))  # derivatives keep no block either
    return out.reshape(blocks * block, *out.shape[2:])[:n]


@jax.custom_jvp
def row_max(s: Float[Array, "b n"], seen: Bool[Array, "b n"] | Bool[Array, " n"]) -> Float[Array, "b 1"]:
    """Return the largest visible entry of each row, or 0 if all its entries are masked. NaNs propagate."""
    top = jnp.max(jnp.where(seen, s, -jnp.inf), -1, keepdims=True)
    return jnp.where(seen.any(-1, keepdims=True), top, 0)


@row_max.defjvp
def _(primals, tangents):
    """Differentiate one largest entry: the derivatives of large scores then cancel exactly if one score is far larger.

    This is mathematics, for every backend: softmax does not depend on which entry is subtracted. JAX's own rule compares the
    entries with their maximum, which needs each of them to be rounded the same way in both places.
    """
    s, seen = primals
    first = jnp.argmax(jnp.where(seen, s, -jnp.inf), -1, keepdims=True)
    change = jnp.take_along_axis(tangents[0], first, -1)
    return row_max(s, seen), jnp.where(seen.any(-1, keepdims=True), change, 0)


def divide(numerator: Array, denominator: Array) -> Array:
    """Return `numerator / denominator`, and 0 where the denominator is 0. NaNs propagate."""
    nothing = denominator == 0
    return jnp.where(nothing, 0, numerator / jnp.where(nothing, 1, denominator))
