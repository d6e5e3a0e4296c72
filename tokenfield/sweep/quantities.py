"""Numbers that a sweep can keep of a run. None of them changes when all tokens are rotated together."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..observables import (
    clusters,
    effective_rank,
    energy,
    fraction_above,
    mean_cosine,
    mean_length,
    normalized_energy,
    order_parameter,
    smallest_cosine,
)
from ..states import Tokens


class AbstractQuantity(eqx.Module):
    """A function of the state that can run inside the compiled time loop."""

    @abc.abstractmethod
    def __call__(self, state: Any) -> Float[Array, ""]:
        """The number."""


class Measured(AbstractQuantity):
    """An observable with its options."""

    function: Callable[..., Any] = eqx.field(static=True)
    options: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())

    def __call__(self, state):
        return jnp.asarray(self.function(state, **dict(self.options)), float)


def inside(function: Callable[..., Any]) -> Callable[..., AbstractQuantity]:
    """What makes a quantity, inside the loop, of an observable that needs no model."""
    return lambda **options: Measured(function, tuple(sorted(options.items())))


def _clusters(state: Tokens, model: Any, tol: float = 1e-3) -> float:
    return float(clusters(state, tol).count)


def _largest_cluster(state: Tokens, model: Any, tol: float = 1e-3) -> float:
    return float(np.max(clusters(state, tol).sizes)) / state.n


def _rank(state: Any, model: Any) -> float:
    return effective_rank(state)


class Quantity(NamedTuple):
    """How an observable is computed: inside the loop (`make`), or from a finished state and its model (`measure`)."""

    label: str
    options: tuple[str, ...] = ()
    make: Callable[..., AbstractQuantity] | None = None
    measure: Callable[..., float] | None = None
    only_tokens: bool = False


QUANTITIES = {
    "fraction_above": Quantity(
        "fraction of pairs with cosine above {threshold}", ("threshold",), inside(fraction_above)
    ),
    "mean_cosine": Quantity("mean cosine", make=inside(mean_cosine)),
    "smallest_cosine": Quantity("smallest cosine", make=inside(smallest_cosine)),
    "order_parameter": Quantity("order parameter", make=inside(order_parameter)),
    "mean_length": Quantity("mean length of tokens", make=inside(mean_length)),
    "clusters": Quantity("clusters", ("tol",), measure=_clusters, only_tokens=True),
    "largest_cluster": Quantity(
        "share of tokens in the largest cluster", ("tol",), measure=_largest_cluster, only_tokens=True
    ),
    "effective_rank": Quantity("effective rank", measure=_rank, only_tokens=True),
    "energy": Quantity("energy", measure=energy),
    "normalized_energy": Quantity("normalized energy", measure=normalized_energy),
}
