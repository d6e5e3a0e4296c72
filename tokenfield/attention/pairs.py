"""The pair sum of an isotropic kernel on the unit sphere, where the matrix of scores is symmetric.

Every pair of blocks of tokens is computed once. Its block E of kernel values is used for the rows of one block (as E)
and of the other (as E^T). This halves the number of exponentials and score products, and the n x n matrix is never
materialized. In benchmarks, strips of blocks are faster for tokens with few coordinates, and single blocks for many.
Products with E^T are computed and summed transposed, as values^T E: each row of the sum is then contiguous in memory.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import dynamic_slice_in_dim as cut
from jax.lax import dynamic_update_slice as put
from jaxtyping import Array, Bool, Float

from .._xla.arrays import transposed_product
from .._xla.exponential import exp2
from .sums import divide

Kernel = Callable[[Float[Array, "a d"], Float[Array, "b d"]], Float[Array, "a b"]]

ONE_BLOCK = 1024  # up to this many tokens the whole matrix is formed
NARROW = 8  # numbers in a vector of the processor
WIDE = 256  # tokens with more coordinates are multiplied block by block
BLOCK = 512
STRIP_ENTRIES = 1 << 23


def pair_sums(
    phi: Callable[[Array], Array],
    normalized: bool,
    b: Float[Array, ""],
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    values: Float[Array, "n m"],
) -> Float[Array, "n m"]:
    """Return `sum_j w_j phi(b <x_i,x_j>) values_j` for unit x, divided by `sum_j w_j phi(…)` if `normalized`."""
    sums = _symmetric_product(lambda u, v: phi(b * cosines(u, v)), Weighted(normalized), x, w, values)
    return divide(sums[:, :-1], sums[:, -1:]) if normalized else sums


def softmax_sums(
    b: Float[Array, ""],
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    values: Float[Array, "n m"],
    by_rows: Callable[[], Float[Array, "n m"]],
) -> Float[Array, "n m"]:
    """Return the same sums with phi = exp, normalized.

    In blocks, all scores are at most |b|, so the maximum of a row is not computed. If all scores of a row are far below |b|,
    its sum underflows (a token of weight 0 far from the others at large b, or any token at large -b). Such rows are taken from
    `by_rows`, which subtracts the largest score of positive weight of each row.
    """
    if len(x) <= ONE_BLOCK:
        return _narrow_softmax(b, x, w, values) if values.shape[1] < NARROW else _softmax(b, x, w, values, by_rows)
    c = b * b.dtype.type(math.log2(math.e))
    kernel = lambda u, v: exp2(_scores(c, u, v))  # noqa: E731
    sums = _symmetric_product(kernel, Weighted(True), x, w, values)
    return quotient(sums[:, :-1], sums[:, -1:], by_rows)


def _narrow_softmax(
    b: Float[Array, ""], x: Float[Array, "n d"], w: Float[Array, " n"], values: Float[Array, "n m"]
) -> Float[Array, "n m"]:
    """Return `softmax_sums` of values with few columns: with the normalizer, these still fit one vector of the processor.

    Scores are relative to their bound |b|, or, if sums could underflow, to the largest one of positive weight of each row.
    `exp2` clips larger scores, those of tokens of weight 0, only where the derivative by their weight is beyond 10^240 in float64.
    """
    c = b * b.dtype.type(math.log2(math.e))
    scores, bound = (c * x) @ x.T, jnp.abs(c)
    # A normalizer relative to the bound is at least 2^{-2 bound}, and derivatives divide by its square.
    in_range = bound < -0.24 * math.log2(jnp.finfo(x.dtype).tiny)
    bounds = jnp.full_like(scores[:, 0], bound)
    largest = lambda: jnp.where(in_range, bounds, jnp.where(w > 0, scores, -jnp.inf).max(1))  # noqa: E731
    shift = jax.lax.cond(everywhere(in_range), lambda: bounds, largest)
    sums = exp2(scores - jax.lax.stop_gradient(shift)[:, None]) @ Weighted(True).columns(values, w)
    return sums[:, :-1] / sums[:, -1:]


def _softmax(
    b: Float[Array, ""],
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    values: Float[Array, "n m"],
    by_rows: Callable[[], Float[Array, "n m"]],
) -> Float[Array, "n m"]:
    """Return `softmax_sums` as they are defined, relative to the largest score of each row.

    A token of weight 0 may have this score. At large |b| the sums over the others may then underflow, and `by_rows` is used.
    """
    # The sums are at least e^{-2|b|} if some weight is 0, and derivatives divide by their square.
    in_range = (jnp.abs(b) < -0.24 * math.log(jnp.finfo(x.dtype).tiny)) | (w > 0).all()
    scores = (b * x) @ x.T
    K = jnp.exp(scores - jax.lax.stop_gradient(scores.max(1, keepdims=True))) * w
    quick = (K @ values) / jnp.where(in_range, K.sum(1, keepdims=True), 1)
    exact = jax.lax.cond(everywhere(in_range), lambda: jnp.zeros_like(quick), jax.checkpoint(by_rows))
    return jnp.where(in_range, quick, exact)


def quotient(
    sums: Float[Array, "b m"], normalizer: Float[Array, "b 1"], by_rows: Callable[[], Float[Array, "b m"]]
) -> Float[Array, "b m"]:
    """Divide sums by their normalizer. Rows where it underflows are taken from `by_rows`.

    `exp2` is at least `tiny`, so rows that sum to at least `tiny/eps` are accurate to rounding. The threshold is the square
    root of this, because derivatives divide by the square of the normalizer.
    """
    limits = jnp.finfo(sums.dtype)
    right = normalizer >= math.sqrt(limits.tiny / limits.eps)
    quick = sums / jnp.where(right, normalizer, 1)
    exact = jax.checkpoint(lambda: jnp.where(right, quick, by_rows()))
    return jax.lax.cond(everywhere(right.all()), lambda: quick, exact)


@jax.custom_batching.custom_vmap
def everywhere(true: Bool[Array, ""]) -> Bool[Array, ""]:
    """Return True if `true` holds for every member of a batch. With one decision for all, vmap of `cond` runs one branch only."""
    return true


@everywhere.def_vmap
def _(size, batched, true):
    return everywhere(true.all()), False


def cosines(u: Float[Array, "a d"], v: Float[Array, "b d"]) -> Float[Array, "a b"]:
    return jnp.einsum("ik,jk->ij", u, v)


@jax.custom_jvp
def _scores(c: Float[Array, ""], u: Float[Array, "a d"], v: Float[Array, "b d"]) -> Float[Array, "a b"]:
    """Return `c <u,v> - |c|`. Derivatives treat `|c|` as a constant, because it cancels in a normalized kernel."""
    return c * cosines(u, v) - jnp.abs(c)


@_scores.defjvp
def _(primals, tangents):
    """Differentiate the product of `c u` and `v`: reverse mode then sums over tokens instead of pairs to get the gradient by c."""
    (c, u, v), (dc, du, dv) = primals, tangents
    return _scores(c, u, v), cosines(dc * u + c * du, v) + cosines(c * u, dv)


class Weighted(NamedTuple):
    """Values times weights, with the weights themselves as a last column if the normalizer is needed too."""

    normalizer: bool

    def columns(self, values: Float[Array, "a m"], w: Float[Array, " a"]) -> Float[Array, "a p"]:
        ones = [jnp.ones_like(values[:, :1])] if self.normalizer else []
        return jnp.concatenate([values, *ones], axis=1) * w[:, None]

    def rows(self, values: Float[Array, "a m"], w: Float[Array, " a"]) -> Float[Array, "p a"]:
        """Return the transpose of `columns`, contiguous in memory: a plain `.T` would not be."""
        ones = [jnp.ones_like(w)[None, :]] if self.normalizer else []
        return jnp.concatenate([values.T, *ones]) * w


def _symmetric_product(kernel: Kernel, weighted: Weighted, x: Array, w: Array, values: Array) -> Array:
    """Return `K weighted(values)` for the symmetric matrix `K_ij = kernel(x_i, x_j)`."""
    n, d = x.shape
    if n <= ONE_BLOCK:
        if weighted.normalizer:
            return kernel(x, x) @ weighted.columns(values, w)
        return transposed_product(weighted.columns(values, w), kernel(x, x)).T
    return (_by_blocks if d > WIDE else _by_strips)(kernel, weighted, x, w, values)


def _by_blocks(kernel: Kernel, weighted: Weighted, x: Array, w: Array, values: Array) -> Array:
    """Sum over pairs of blocks i < j, one pair after another."""
    n, blocks = len(x), -(-len(x) // BLOCK)
    split = lambda a: _pad(a, blocks * BLOCK).reshape(blocks, BLOCK, *a.shape[1:])  # noqa: E731
    x, w, values = split(x), split(w), split(values)
    rows = jax.lax.map(lambda own: kernel(own[0], own[0]) @ weighted.columns(own[2], own[1]), (x, w, values))
    left, right = map(jnp.asarray, np.triu_indices(blocks, 1))

    @jax.checkpoint  # derivatives keep no block either
    def visit(k, sums):
        rows, columns = sums
        i, j = left[k], right[k]
        E = kernel(x[i], x[j])
        row, column = E @ weighted.columns(values[j], w[j]), weighted.rows(values[i], w[i]) @ E
        return rows.at[i].add(row), columns.at[j].add(column)

    rows, columns = jax.lax.fori_loop(0, len(left), visit, (rows, jnp.zeros_like(rows.transpose(0, 2, 1))))
    return (rows + columns.transpose(0, 2, 1)).reshape(blocks * BLOCK, -1)[:n]


def _by_strips(kernel: Kernel, weighted: Weighted, x: Array, w: Array, values: Array) -> Array:
    """Sum over each block with itself and with the strip of blocks that follow it, up to half of the cycle of all blocks."""
    n = len(x)
    blocks = max(3, math.ceil(n / 464), math.ceil(n * n / (2 * STRIP_ENTRIES))) | 1  # odd: half of the others follow
    block = 16 * math.ceil(n / blocks / 16)
    total, strip = blocks * block, blocks // 2 * block
    around = lambda a: jnp.concatenate([_pad(a, total), _pad(a, total)[:strip]])  # noqa: E731
    x, w, values = around(x), around(w), around(values)
    width = values.shape[1] + weighted.normalizer

    @jax.checkpoint
    def visit(k, sums):
        rows, columns = sums
        at = k * block
        mine = lambda a: cut(a, at, block)  # noqa: E731
        next_ = lambda a: cut(a, at + block, strip)  # noqa: E731
        E = kernel(mine(x), next_(x))
        row = kernel(mine(x), mine(x)) @ weighted.columns(mine(values), mine(w))
        row += E @ weighted.columns(next_(values), next_(w))
        column = cut(columns, at + block, strip, axis=1) + weighted.rows(mine(values), mine(w)) @ E
        return put(rows, row, (at, 0)), put(columns, column, (0, at + block))

    zeros = lambda *shape: jnp.zeros(shape, x.dtype)  # noqa: E731
    rows, columns = jax.lax.fori_loop(0, blocks, visit, (zeros(total, width), zeros(width, total + strip)))
    columns = columns[:, :total].at[:, :strip].add(columns[:, total:])
    return (rows + columns.T)[:n]


def _pad(a: Array, n: int) -> Array:
    """Pad with zeros at the end: tokens of weight 0."""
    return jnp.pad(a, ((0, n - len(a)),) + ((0, 0),) * (a.ndim - 1))
