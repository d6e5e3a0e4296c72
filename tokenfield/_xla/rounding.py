"""Values that must be rounded the same way wherever they are read. XLA computes a value again in each loop that reads it."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def as_product_of_pairs(
    q: Float[Array, "a k"], k: Float[Array, "b k"]
) -> tuple[Float[Array, "a l"], Float[Array, "b l"]]:
    """Return factors of the same product `q k^T`, in which single numbers have become pairs with a 0.

    A product of single numbers is fused with what reads it, for example the subtraction of its maximum, and rounded
    differently from that maximum. A product of pairs is not fused.
    """
    if q.shape[1] != 1:
        return q, k
    pad = lambda a: jnp.pad(a, ((0, 0), (0, 1)))  # noqa: E731
    return pad(q), pad(k)
