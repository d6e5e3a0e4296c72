"""The pair sum of an isotropic kernel on the unit sphere, where the matrix of scores is symmetric.

Each pair of blocks I < J of tokens is visited once: its block E of kernel values serves the rows of I (as E) and
those of J (as E^T). This halves the exponentials and the score products, and memory is O(n * block).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def pair_sums(
    phi: Callable[[Array], Array],
    normalised: bool,
    b: Float[Array, ""],
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    values: Float[Array, "n m"],
) -> Float[Array, "n m"]:
    """`sum_j w_j phi(b <x_i,x_j>) values_j` for unit x, divided by `sum_j w_j phi(…)` if `normalised`.

    Normalised kernels are exponentials: `b <x,y> <= |b|` bounds every score, so no maximum is searched for.
    """
    shift = jnp.abs(b) if normalised else jnp.zeros_like(b)
    kernel = lambda u, v: phi(b * jnp.einsum("ik,jk->ij", u, v) - shift)  # noqa: E731
    weighted = w[:, None] * (_with_ones(values) if normalised else values)
    sums = _symmetric_product(kernel, x, weighted)
    return sums[:, :-1] / sums[:, -1:] if normalised else sums


def _with_ones(values: Float[Array, "n m"]) -> Float[Array, "n m+1"]:
    """A column of ones, so that the normaliser comes out of the same product."""
    return jnp.concatenate([values, jnp.ones_like(values[:, :1])], axis=1)


def block_size(n: int, d: int) -> int:
    """Tokens in a block. Found by measurement: larger blocks multiply faster, smaller ones save more."""
    return n if n <= 768 else 512 if n < 4096 or d > 256 else 1024


def _symmetric_product(kernel: Callable, x: Float[Array, "n d"], values: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """`K values` for the symmetric matrix `K_ij = kernel(x_i, x_j)`."""
    n, m = values.shape
    block = block_size(n, x.shape[1])
    if n <= block:
        return kernel(x, x) @ values
    blocks = -(-n // block)
    cut = lambda a: jnp.pad(a, ((0, blocks * block - n), (0, 0))).reshape(blocks, block, -1)  # noqa: E731
    x, values = cut(x), cut(values)
    transposed = values.transpose(0, 2, 1)
    rows = jax.lax.map(lambda own: kernel(own[0], own[0]) @ own[1], (x, values))
    left, right = map(jnp.asarray, np.triu_indices(blocks, 1))

    # Products with E^T are kept transposed, as values^T E: that is the faster order in memory.
    def visit(k, sums):
        rows, columns = sums
        i, j = left[k], right[k]
        E = kernel(x[i], x[j])
        return rows.at[i].add(E @ values[j]), columns.at[j].add(transposed[i] @ E)

    rows, columns = jax.lax.fori_loop(0, len(left), visit, (rows, jnp.zeros((blocks, m, block), x.dtype)))
    return (rows + columns.transpose(0, 2, 1)).reshape(blocks * block, m)[:n]
