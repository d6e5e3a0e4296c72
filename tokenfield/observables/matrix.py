"""The attention matrix itself."""

import jax.numpy as jnp
import numpy as np

from ..attention import AbstractAttention, AbstractHead
from ..states import Tokens
from ..transformer import Transformer

MOST_TOKENS = 8192


def attention_matrix(state: Tokens, model: Transformer | AbstractAttention, t: float = 0.0) -> np.ndarray:
    """`P_ij = w_j k(x_i, x_j)`, so that `Gamma(x_i) = sum_j P_ij V x_j` (FORMULAS §1).

    Under a norm, attention reads what the norm lets it read (directions, for Pre-LN). Returns (n, n) for one
    head and (heads, n, n) for several.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.attention_matrix(tkf.uniform_sphere(8, 3, seed=0), tkf.Softmax(beta=4.0)).sum(axis=1)
    """
    if state.n > MOST_TOKENS:
        raise ValueError(f"attention_matrix holds n x n numbers and takes at most {MOST_TOKENS} tokens, got {state.n}")
    x = state.x
    if isinstance(model, Transformer):
        x = getattr(model.norm, "reads", lambda x: x)(state.normalized().x) if hasattr(model.norm, "reads") else x
        attention = model.attention
    else:
        attention = model
    attention.check(state.d)
    values, time = jnp.eye(state.n), jnp.asarray(float(t))
    matrices = [
        np.asarray(head.average(time, x, state.weights, state.positions, values)) * float(jnp.exp(head.log_unit))
        for head in attention.heads
    ]
    return matrices[0] if isinstance(attention, AbstractHead) else np.stack(matrices)
