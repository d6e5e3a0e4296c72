"""The local Lipschitz constant of a whole stack of layers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._check import count, positive
from .._cost import check_derivative
from .._jax import in_double
from ..driver.discrete import models_of_layers
from ..flows.base import admit
from ..transformer import Transformer
from .derivative import AbstractDerivative, Chain
from .layer import layer_derivative
from .local import MAX_PRODUCTS, LocalConstant, check_layer, singular_values, tokens_of
from .singular import basis_rows


@dataclass(frozen=True)
class NetworkConstant:
    """Local Lipschitz constants of a stack of layers at given tokens.

    Attributes:
        whole: the largest singular values of the derivative `D_L … D_1` of all layers together.
        layers: (L,) the local constant of each layer at the tokens that enter it.
        converged: True if all of them are accurate to the tolerance.
    """

    whole: LocalConstant
    layers: np.ndarray
    converged: bool

    @property
    def constant(self) -> float:
        """The local Lipschitz constant of the network."""
        return self.whole.constant

    @property
    def product(self) -> float:
        """The product of the layers' constants, an upper bound on `constant`."""
        return float(math.prod(self.layers))


@in_double
def network(
    model: Transformer | Sequence[Transformer] | Callable[[int], Transformer],
    x: Any,
    depth: int | None = None,
    step: float = 1.0,
    *,
    rtol: float = 1e-8,
    top_k: int = 1,
    max_products: int = MAX_PRODUCTS,
) -> NetworkConstant:
    """Return `|D_X (f_L ∘ … ∘ f_1)|_2`, the local Lipschitz constant of the stack that `layers` runs (FORMULAS §2, §6).

    Args:
        model, depth, step: as in `layers`.
        x: (n, d) tokens before the first layer, or `Tokens`.
        rtol, top_k, max_products: as in `local`, for the whole stack; the constants of single layers have the same rtol.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PreLN())
        >>> tkf.lipschitz.network(model, tkf.uniform_sphere(8, 3, seed=0), depth=3).constant
        6.684242887698104
    """
    state, h = tokens_of(x), jnp.asarray(positive("step", step))
    models = models_of_layers(model, depth)
    for each in {id(each): each for each in models}.values():
        check_layer(each, state)
    admit(state, models[0])
    check_derivative(state.n, state.d, basis_rows(state.n * state.d, count("top_k", top_k)))
    parts: list[AbstractDerivative] = []
    layers = []
    at = state
    for index, each in enumerate(models):
        D, after = layer_derivative(each, index * h, at, h, len(models))
        parts.extend(D.parts if isinstance(D, Chain) else (D,))
        layers.append(singular_values(D, state, 0.0, rtol, 1, max_products))
        at = eqx.tree_at(lambda s: s.x, at, after)
    whole = singular_values(Chain(tuple(parts)), state, float(models[0].attention.log_unit), rtol, top_k, max_products)
    everything = all(found.converged for found in (whole, *layers))
    return NetworkConstant(whole, np.array([found.constant for found in layers]), everything)
