"""Numbers that a sweep can keep of a run. None of them changes when all tokens are rotated together."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..normalization.base import unit
from ..states import Equiangular, Tokens


class AbstractQuantity(eqx.Module):
    """A function of the state that can run inside the compiled time loop."""

    @abc.abstractmethod
    def __call__(self, state: Any) -> Float[Array, ""]:
        """The number."""


class FractionAbove(AbstractQuantity):
    """The fraction of pairs of different tokens whose cosine is above a threshold."""

    threshold: float = eqx.field(static=True, default=0.999)

    def __call__(self, state):
        if isinstance(state, Equiangular):
            return (state.gap < 1 - self.threshold).astype(float)
        x = state.x
        square = (x * x).sum(-1)
        length = jnp.sqrt(square)
        pairs = x @ x.T > self.threshold * length * length[:, None]
        return (pairs.sum() - jnp.sum(square > self.threshold * square)) / (state.n * (state.n - 1))


class MeanCosine(AbstractQuantity):
    """The mean cosine between different tokens."""

    def __call__(self, state):
        if isinstance(state, Equiangular):
            return 1 - state.gap
        theta, w = unit(state.x), state.weights
        same = w * w @ (theta * theta).sum(-1)
        return (jnp.sum((w @ theta) ** 2) - same) / (1 - w @ w)


class SmallestCosine(AbstractQuantity):
    """The smallest cosine between two tokens."""

    def __call__(self, state):
        if isinstance(state, Equiangular):
            return 1 - state.gap
        theta = unit(state.x)
        return jnp.min(theta @ theta.T)


class OrderParameter(AbstractQuantity):
    """`|∫ x/|x| dmu|`."""

    def __call__(self, state):
        if isinstance(state, Equiangular):
            return jnp.sqrt(1 - (state.n - 1) / state.n * state.gap)
        return jnp.linalg.norm(state.weights @ unit(state.x))


class MeanLength(AbstractQuantity):
    """The mean length of the tokens."""

    def __call__(self, state):
        if isinstance(state, Equiangular):
            return state.radius
        return state.weights @ jnp.linalg.norm(state.x, axis=-1)


def _clusters(state: Tokens, model: Any, tol: float = 1e-3) -> float:
    from ..observables import clusters

    return float(clusters(state, tol).count)


def _largest_cluster(state: Tokens, model: Any, tol: float = 1e-3) -> float:
    from ..observables import clusters

    return float(np.max(clusters(state, tol).sizes)) / state.n


def _rank(state: Any, model: Any) -> float:
    from ..observables import effective_rank

    return float(effective_rank(state))


def _energy(state: Any, model: Any) -> float:
    from ..observables import energy

    return float(energy(state, model))


def _normalized_energy(state: Any, model: Any) -> float:
    from ..observables import normalized_energy

    return float(normalized_energy(state, model))


class Quantity(NamedTuple):
    """How an observable is computed: inside the loop (`make`), or from a finished state and its model (`measure`)."""

    label: str
    options: tuple[str, ...] = ()
    make: Callable[..., AbstractQuantity] | None = None
    measure: Callable[..., float] | None = None
    only_tokens: bool = False


QUANTITIES = {
    "fraction_above": Quantity("fraction of pairs with cosine above {threshold}", ("threshold",), FractionAbove),
    "mean_cosine": Quantity("mean cosine", make=MeanCosine),
    "smallest_cosine": Quantity("smallest cosine", make=SmallestCosine),
    "order_parameter": Quantity("order parameter", make=OrderParameter),
    "mean_length": Quantity("mean length of tokens", make=MeanLength),
    "clusters": Quantity("clusters", ("tol",), measure=_clusters, only_tokens=True),
    "largest_cluster": Quantity(
        "share of tokens in the largest cluster", ("tol",), measure=_largest_cluster, only_tokens=True
    ),
    "effective_rank": Quantity("effective rank", measure=_rank, only_tokens=True),
    "energy": Quantity("energy", measure=_energy),
    "normalized_energy": Quantity("normalized energy", measure=_normalized_energy),
}
