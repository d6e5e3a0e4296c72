"""How far a small displacement of each token moves one token several layers later."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import count, generator, items, positive
from .._jax import in_double
from .._shown import shown
from ..driver.discrete import models_of_layers
from ..flows.layers import AbstractLayerFlow, layer_flow
from ..states import Tokens
from ..states.base import require_one
from ..transformer import Transformer, only_transformer


@in_double
def influence(
    model: Transformer,
    x: Any,
    depth: int | Sequence[int],
    step: float = 1.0,
    *,
    token: int = -1,
    directions: int | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Return the influence of every token on one token after L layers, `|∂x_i(L)/∂x_j(0)|_F / sqrt(d)` for each j.

    If layers mix tokens with scalar coefficients, `x_i(L) = sum_j c_ij x_j(0)`, it is `|c_ij|`. The derivative is that of the
    full model at these tokens, including norms, MLPs and the scores of attention.

    Args:
        model: a Transformer without noise and without an encoder.
        x: (n, d) tokens before the first layer, or `Tokens`.
        depth: the number of layers L, or a list of them.
        step: the step size of the layers, as in `layers`.
        token: the index i of the token that responds; by default the last.
        directions: number of random orthogonal directions of that token for an estimate of the norm, with a relative error of
            at most about `1/sqrt(2 directions)`. None takes all d, which is exact.
        seed: seed of the directions.

    Returns:
        (n,) influences for one depth, (len(depth), n) for a list.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0, causal=True), norm=tkf.PreLN())
        >>> tkf.lipschitz.influence(model, tkf.uniform_sphere(16, 3, seed=0), depth=4)
        array([0.71908768, 0.33733485, 0.41573079, 0.39702766, 0.26787337,
               0.19925422, 0.38694225, 0.32801996, 0.20044224, 0.24699926,
               0.19807213, 0.36023924, 0.29412056, 0.29588949, 0.25817385,
               2.79261345])
    """
    state = x if isinstance(x, Tokens) else Tokens(x)
    require_one("influence", state)
    h = jnp.asarray(positive("step", step))
    one = not isinstance(depth, Sequence | np.ndarray)
    depths = [count("depth", each) for each in ((depth,) if one else items("depth", depth, "numbers of layers"))]
    if not depths:
        raise ValueError(f"depth must be a number of layers, or a list of them, got {shown(depth)}")
    if isinstance(token, bool) or not isinstance(token, int | np.integer) or not -state.n <= token < state.n:
        raise ValueError(f"token must be the index of one of {state.n} tokens, got {shown(token)}")
    k = state.d if directions is None else count("directions", directions, 1, state.d)
    flow = layer_flow(state, models_of_layers(only_transformer(model), max(depths))[0])
    if model.encoder is not None:
        raise ValueError("model must not have an encoder: pass a fixed context instead")
    before = [state.x]
    for index in range(max(depths) - 1):
        before.append(_after(flow, index * h, before[-1], h))
    u = orthogonal_directions(state.d, k, seed)
    found = []
    for L in depths:
        pulled = jnp.zeros((k, *state.x.shape)).at[:, token].set(u)
        for index in reversed(range(L)):
            pulled = _pulled(flow, index * h, before[index], h, pulled)
        found.append(np.sqrt(np.asarray((pulled * pulled).sum(-1).mean(0))))
    if not np.isfinite(found).all():
        raise ValueError("x: the derivative overflows at these tokens")
    return found[0] if one else np.stack(found)


def orthogonal_directions(d: int, k: int, seed: int) -> np.ndarray:
    """Return (k, d) random vectors of length 1, orthogonal to each other."""
    return np.linalg.qr(generator(seed).standard_normal((d, k)))[0].T


@eqx.filter_jit
def _after(flow: AbstractLayerFlow, t: Array, x: Float[Array, "n d"], h: Array) -> Float[Array, "n d"]:
    """Return the tokens after a layer."""
    return flow.layer(t, x, h)[0]


@eqx.filter_jit
def _pulled(
    flow: AbstractLayerFlow, t: Array, x: Float[Array, "n d"], h: Array, u: Float[Array, "k n d"]
) -> Float[Array, "k n d"]:
    """Return `D^T u` for each of k vectors u, D the derivative of a layer at tokens x."""
    back = jax.vjp(lambda x: flow.layer(t, x, h)[0], x)[1]
    return jax.vmap(lambda u: back(u)[0])(u)
