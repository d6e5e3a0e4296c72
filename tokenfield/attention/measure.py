"""The measure that tokens attend to: weighted points with positions."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


@runtime_checkable
class AtomicMeasure(Protocol):
    """`mu = sum_j w_j delta_{y_j}`: anything with these three arrays, e.g. `Tokens`."""

    x: Any
    weights: Any
    positions: Any


class Measure(eqx.Module):
    """`mu = sum_j w_j delta_{y_j}`, the points y_j at positions tau_j (FORMULAS §1). `Tokens` is one with checks."""

    x: Float[Array, "n d"]
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]


def last(mu: AtomicMeasure, m: int) -> Float[Array, " m"]:
    """Return positions for m points that come after the whole measure, so that a causal mask hides none of it."""
    return jnp.full(m, mu.positions.max())
