"""The attention matrix."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._check import number, positive
from .._jax import in_double
from .._shown import shown
from ..attention import AbstractAttention, AbstractHead, Measure
from ..flows.rescaled import scaled_tokens
from ..flows.rescaled_parts import sharpened
from ..normalization import Rescaled
from ..spaces import AbstractSpace, Euclidean
from ..states import Tokens
from ..states.tokens import only_tokens
from ..transformer import Transformer

MOST_TOKENS = 8192
LARGEST_ERROR = 1e-6
CHANGES = 4  # number of random perturbations tried: under a single one, a token may attend to the same leader by chance


@in_double
def attention_matrix(state: Tokens, model: Transformer | AbstractAttention, t: float | None = None) -> np.ndarray:
    """Return the attention matrix `P_ij = w_j k(x_i, x_j)`, so that `Gamma(x_i) = sum_j P_ij V x_j` (FORMULAS §1).

    Under a norm, attention acts on the output of the norm (directions, for Pre-LN). Under `Rescaled` the state holds
    `z = e^{-tV} x`, and the matrix is taken at x.

    Args:
        state: the tokens.
        model: a Transformer; or an attention, which is applied to the tokens directly.
        t: the time of the state, at which A(t), V(t), … are evaluated; 0 by default, but required under `Rescaled`.

    Returns:
        (n, n) for one head and (heads, n, n) for several.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.attention_matrix(tkf.uniform_sphere(8, 3, seed=0), tkf.Softmax(beta=4.0)).sum(axis=1)
        array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    only_tokens("attention_matrix", state)
    if state.n > MOST_TOKENS:
        raise ValueError(f"attention_matrix stores n x n numbers and takes at most {MOST_TOKENS} tokens, got {state.n}")
    if isinstance(model, Transformer) and model.depth is not None:
        raise ValueError("model has weights by layer: choose a layer, e.g. model.at_layer(0)")
    if isinstance(model, Transformer) and model.context is not None and model.cross is None:
        raise ValueError(
            "model has tokens that attend to a context, not to each other, so they have no attention matrix"
        )
    attention = model.attention if isinstance(model, Transformer) else model
    if not isinstance(attention, AbstractAttention):
        raise TypeError(f"model must be a Transformer or an attention such as Softmax(beta=1.0), got {shown(model)}")
    attention.check(state.d)
    x, heads = state.x, attention.heads
    if isinstance(model, Transformer) and isinstance(model.norm, Rescaled):
        matrices = _at_rescaled(state, model, t)
    else:
        time = 0.0 if t is None else number("t", t)
        if isinstance(model, Transformer):
            x = model.norm.inputs(jnp.asarray(time), x)
        space = model.space if isinstance(model, Transformer) else state.given_space or Euclidean()
        matrices = _matrices(heads, time, x, state, space)
    return matrices[0] if isinstance(attention, AbstractHead) else matrices


def _at_rescaled(state: Tokens, model: Transformer, t: float | None) -> np.ndarray:
    """Return the matrices at `x = e^{tV} z`; raise ValueError if `e^{tV}` amplifies the rounding errors of z too much."""
    if t is None:
        raise ValueError("t must be given under Rescaled: the state holds z = e^(-tV) x, but attention acts on x")
    time = positive("t", t, or_zero=True)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (CHANGES, *state.x.shape))
    found = []
    for z in (state.x, *(state.x * (1 + 4 * np.finfo(float).eps * signs))):
        x, c = scaled_tokens(model, Tokens(z, state.weights, state.positions), time)
        found.append(_matrices([sharpened(head, c) for head in model.attention.heads], time, x, state, Euclidean()))
    if not np.abs(found[0] - np.stack(found[1:])).max() <= LARGEST_ERROR * np.abs(found[0]).max():
        raise ValueError(
            f"z at t = {time:g} is rounded too much for e^(tV) z: pass model.attention and the tokens "
            "x = e^log_scale * scaled of the run's dataset instead"
        )
    return found[0]


def _matrices(heads: Sequence[AbstractHead], time: float, x: Array, state: Tokens, space: AbstractSpace) -> np.ndarray:
    values, now = jnp.eye(state.n), jnp.asarray(time)
    mu = Measure(x, state.weights, state.positions)

    def rows(head: AbstractHead) -> np.ndarray:
        if space.indefinite:
            return np.asarray(head.average(now, space.lower(x), mu, mu.positions, values))
        return np.asarray(head.average_of_itself(now, mu, values))

    return np.stack([rows(head) * float(jnp.exp(head.log_unit)) for head in heads])
