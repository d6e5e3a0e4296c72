"""Velocity field: the velocity of a token at any point, given the other tokens."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import as_float, number
from .._types import Matrix
from ..attention import Measure
from ..attention.fixed import Fixed
from ..attention.measure import last
from ..normalization import Rescaled
from ..states import Tokens
from ..states.tokens import only_tokens
from ..transformer import Transformer, only_transformer
from .base import AbstractFlow, rules_in_time, segments


def velocity_field(model: Transformer, state: Tokens, points: Matrix, t: float = 0.0) -> Float[Array, "m d"]:
    """Return the velocity dx/dt that a token at each of some points would have at time t, among the tokens of a state.

    It is `Gamma_mu(x)` (plus the MLP) under the norm, e.g. `P_x Gamma_mu(x)` for Post-LN. At the tokens themselves it is
    their velocity, without noise. If attention uses positions, the points come after all tokens.

    Args:
        model: the Transformer.
        state: the tokens; their measure is mu.
        points: (m, d) the points x; if the norm fixes lengths, they must have that length.
        t: the time, at which A(t), V(t), … are evaluated.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
        >>> tkf.velocity_field(model, tkf.uniform_sphere(64, 2, seed=0), [[1.0, 0.0], [0.0, 1.0]])
        Array([[-1.73302387e-17,  8.90590666e-02],
               [ 7.18899442e-02,  0.00000000e+00]], dtype=float64)
    """
    only_transformer(model)
    mu, time = only_tokens("velocity_field", state), number("t", t)
    x = as_float("points", points, 2)
    if x.shape[1] != mu.d:
        raise ValueError(f"points must have shape (m, {mu.d}), like the tokens, got {x.shape}")
    if model.depth is not None:
        raise ValueError("model has weights by layer: choose a layer, e.g. model.at_layer(0)")
    if model.encoder is not None:
        raise ValueError("model has a context that moves: give it the context at time t, and no encoder")
    if isinstance(model.norm, Rescaled):
        raise ValueError("norm=Rescaled() has no velocity field of x: use the model with norm=NoNorm(), and tokens x")
    rule = next(rule for until, rule in rules_in_time(model) if time <= until)
    seen = model.attention
    if model.context is None or model.cross is not None:  # self-attention
        seen = Fixed(seen, Measure(rule.inputs(jnp.asarray(time), mu.x), mu.weights, mu.positions))
    given = eqx.tree_at(
        lambda m: (m.attention, m.norm, m.noise, m.fisher_rao),
        model,
        (seen, rule, None, None),
        is_leaf=lambda a: a is None,
    )
    asked = Tokens(x, positions=last(mu, len(x)))
    return _velocity(segments(asked, given)[-1].flow, asked, jnp.asarray(time))


@eqx.filter_jit
def _velocity(flow: AbstractFlow, state: Tokens, t: Float[Array, ""]) -> Float[Array, "m d"]:
    y = flow.pack(state)
    return jax.jvp(lambda y: flow.unpack(y).x, (y,), (flow.velocity(t, y),))[1]
