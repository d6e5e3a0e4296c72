"""Shared parts of the rescaled flows: attention at tokens that would overflow, value maps, Schur forms, errors."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..attention import AbstractAttention, AbstractHead, Measure, heads_and_outputs
from ..transformer import Transformer

LARGEST_FACTOR = 600.0  # scores are multiplied by at most e^600, where attention already equals hardmax to the last bit
ROUNDING = 1e-13  # matrix entries below this, relative to the largest, count as 0
ITERATIONS = 64  # of the power iteration for a traced V: enough for real parts that differ by a fraction of V
GROWN = 20.0  # when x has grown by e^20, rounding begins to hide which token leads
OVERFLOW = (
    "stop earlier: z = e^(-tV) x grows like e^(|lambda| t) along eigenvalues lambda < 0 of V, and an MLP needs x itself"
)
PRECISION_LOST = (
    "tokens that are close along the leading eigenvectors of V differ by less than rounding, but z along the small eigenvalues "
    "depends on which of them the others attend to: states up to this time are accurate"
)


def moves(model: Transformer, t, x, c, values, weights, positions) -> list[Float[Array, "n d"]]:
    """Return `sum_j P_ij values_j - values_i` for each head, where P is the attention matrix at the tokens `e^c x`."""
    heads, mu = model.attention.heads, Measure(x, weights, positions)
    return [sharpened(head, c).average_of_itself(t, mu, values) - values for head in heads]


def sharpened(head: AbstractHead, c: Array) -> AbstractHead:
    """Return the head whose scores at tokens x are those of `head` at `e^c x`."""
    return eqx.tree_at(lambda h: h.score.factor, head, jnp.exp(jnp.minimum(2 * c, LARGEST_FACTOR)))


def pushed(model: Transformer, x: Float[Array, "n d"], c: Array) -> Float[Array, "n d"]:
    """Return the MLP at the tokens `e^c x`, which must not overflow."""
    assert model.mlp is not None
    return jnp.exp(-model.attention.log_unit) * model.mlp(jnp.exp(c) * x)


def value_maps(attention: AbstractAttention, t: Array, d: int) -> list[Float[Array, "d d"]]:
    """Return `C_h = W_h V_h`, in the attention's time unit."""
    identity, unit = jnp.eye(d), attention.log_unit
    parts = heads_and_outputs(attention)
    maps = [W(t, head.value(t, identity)).T for head, W in parts]
    if len(parts) == 1:  # the unit of a single head is that of the attention
        return maps
    return [jnp.exp(head.log_unit - unit) * C for (head, _), C in zip(parts, maps, strict=True)]


def tidy(C: Float[Array, "*h d d"], rounding: float | Array = ROUNDING) -> Float[Array, "*h d d"]:
    """Set entries at rounding level to 0, since an exponential may multiply them. They keep their derivatives."""
    small = jnp.where(jnp.abs(C) > rounding * jnp.abs(C).max(), 0, C)
    return C - jax.lax.stop_gradient(small)


def graded_ratio(error: Array, y0: Array, y1: Array, rtol, atol, alike: Float[Array, "d d"]) -> Float[Array, ""]:
    """Return `largest_ratio`, with lengths taken only over coordinates that are `alike`.

    If not all are alike, a coordinate is compared with the largest over all tokens: it jumps when another token leads.
    """
    length = lambda a: jnp.sqrt(a * a @ alike)  # noqa: E731
    sizes = jnp.maximum(length(y0), length(y1))
    sizes = jnp.maximum(sizes, (1 - alike.min()) * sizes.max(0))
    return jnp.max(length(error) / (atol + rtol * sizes))


def ordered_schur(V: Any, descending: bool = False) -> tuple[Any, Any, Any]:
    """Return `(U, Q, real)`: `V = Q U Q^T` with U quasi-triangular, and the sorted real parts of the eigenvalues.

    If V is traced, Q comes from its sorted eigenvectors, and from a power iteration where these do not span the space. It is
    a choice of coordinates, so it needs no derivative; U has one.
    """
    sign = -1 if descending else 1
    if not is_concrete(V):
        fixed = jax.lax.stop_gradient(V)
        found, vectors = jnp.linalg.eig(fixed)
        order = jnp.lexsort((jnp.abs(found.imag), sign * found.real))
        found, vectors = found[order], vectors[:, order]
        Q = jnp.linalg.qr(jnp.where(found.imag < 0, vectors.imag, vectors.real))[0]
        power = jax.scipy.linalg.expm(-sign * fixed / jnp.maximum(jnp.linalg.norm(fixed), 1e-300))
        Q = jax.lax.fori_loop(0, ITERATIONS, lambda _, Q: jnp.linalg.qr(power @ Q)[0], Q)
        return tidy(Q.T @ V @ Q), Q, found.real
    from scipy.linalg import lapack, schur

    U, Q = schur(V)
    d, place = len(U), 0
    while place < d:
        starts = [k for k in range(place, d) if k == 0 or U[k, k - 1] == 0]  # a 2 x 2 block has equal diagonal entries
        first = min(starts, key=lambda k: sign * U[k, k])
        if first != place:
            U, Q, _ = lapack.dtrexc(U, Q, first + 1, place + 1)
        place += 2 if place + 1 < d and U[place + 1, place] != 0 else 1
    return U, Q, np.diag(U)
