"""Softmax of many scores without a search for the largest one of each row.

`<q_i, k_j> <= |q_i| max_j |k_j|` bounds all scores of a row, and softmax does not see what is subtracted from all of them. The
search is a pass over all pairs that takes as long as their exponentials. A mask allows no such bound: what is hidden would
change the rounding of what is seen.
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
        bias: what is added to the scores of each key; None for 0.
        w: weights.
        values: what is averaged.
    """

    k: Float[Array, "n k"]
    bias: Float[Array, " n"] | None
    w: Float[Array, " n"]
    values: Float[Array, "n v"]

    def __call__(self, q: Float[Array, "b k"], by_rows: Callable[[], Float[Array, "b v"]]) -> Float[Array, "b v"]:
        """The averages of a block of queries. Those of rows that underflow are taken from `by_rows`."""
        scores = q @ self.k.T - self._bound(q)
        E = exp2(scores if self.bias is None else scores + self.bias)
        return quotient(E @ Weighted(True).columns(self.values, self.w), by_rows)

    def _bound(self, q: Float[Array, "b k"]) -> Float[Array, "b 1"]:
        """A number that no score of a row exceeds, rounding included. It is a constant for derivatives."""
        lengths = lambda a: jnp.sqrt((a * a).sum(-1, keepdims=True))  # noqa: E731
        rounding = 4 * (q.shape[1] + 4) * float(jnp.finfo(q.dtype).eps)
        bound = (1 + rounding) * lengths(q) * lengths(self.k).max()
        if self.bias is not None:
            bound += self.bias.max() + rounding * jnp.abs(self.bias).max()
        return jax.lax.stop_gradient(bound)
