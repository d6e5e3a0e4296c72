"""Softmax of many scores without computing the largest score of each row.

All scores of a row are at most `|q_i| max_j |k_j|`, and softmax does not change if a constant is subtracted from a row.
Computing the maximum would be a pass over all pairs that takes as long as their exponentials. With a mask the bound is not
used: masked scores would change the rounding of the visible ones.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._xla.exponential import exp2
from .pairs import Weighted, quotient

ENTRIES = 1 << 20  # scores held at once: products with fewer rows at a time take longer


class BoundedSoftmax(NamedTuple):
    """`sum_j w_j 2^{s_ij} values_j / sum_j w_j 2^{s_ij}` with `s_ij = <q_i, k_j> + bias_j`, for blocks of queries.

    Args:
        k: keys.
        bias: (n,) number added to the scores of each key; None for 0.
        w: (n,) weights.
        values: (n, k) values to average.
    """

    k: Float[Array, "n k"]
    bias: Float[Array, " n"] | None
    w: Float[Array, " n"]
    values: Float[Array, "n v"]

    def __call__(self, q: Float[Array, "b k"], by_rows: Callable[[], Float[Array, "b v"]]) -> Float[Array, "b v"]:
        """Return the averages of a block of queries. Rows that underflow are taken from `by_rows`."""
        scores = q @ self.k.T - self._bound(q)
        E = exp2(scores if self.bias is None else scores + self.bias)
        sums = E @ Weighted(True).columns(self.values, self.w)
        return quotient(sums[:, :-1], sums[:, -1:], by_rows)

    def _bound(self, q: Float[Array, "b k"]) -> Float[Array, "b 1"]:
        """Return an upper bound of the scores of a row, rounding included. Derivatives treat it as a constant."""
        lengths = lambda a: jnp.sqrt((a * a).sum(-1, keepdims=True))  # noqa: E731
        rounding = 4 * (q.shape[1] + 4) * float(jnp.finfo(q.dtype).eps)
        bound = (1 + rounding) * lengths(q) * lengths(self.k).max()
        if self.bias is not None:
            bound += self.bias.max() + rounding * jnp.abs(self.bias).max()
        return jax.lax.stop_gradient(bound)
