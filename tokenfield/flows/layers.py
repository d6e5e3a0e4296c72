"""The discrete Transformer: what one layer does to tokens."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..attention import Measure
from ..normalization import AbstractSphereNorm, Projected
from ..states import Tokens
from ..states.tokens import wrap_hint
from ..transformer import Transformer
from .base import AbstractFlow, is_random, require_closed
from .paired import Pair, read, with_context
from .projected import check_space
from .tokens import check


class LayerFlow(AbstractFlow):
    """`x <- norm(x, h sublayer)` for attention, cross-attention and the MLP. It has layers instead of a velocity.

    With an encoder the unknowns are a `Pair`: layer l reads the context as it is before the encoder's own layer l.
    """

    model: Transformer
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        return state.x if self.model.encoder is None else Pair(state.x, self.model.context.x)  # type: ignore[union-attr]

    def unpack(self, y):
        space = self.model.space if isinstance(self.model.norm, Projected) else None
        return Tokens(y.tokens if isinstance(y, Pair) else y, self.weights, self.positions, space)

    def layer(self, t: Float[Array, ""], y: Any, h: Float[Array, ""]) -> tuple[Any, Bool[Array, ""]]:
        """Return the unknowns after a layer with step size h at time t, and whether the norm met a token of length 0."""
        if not isinstance(y, Pair):
            return self._tokens(t, y, h)
        model, nu = self.model, self.model.context
        assert nu is not None
        assert model.encoder is not None
        context = Measure(y.context, nu.weights, nu.positions)
        decoder = with_context(self, read(model.encoder.norm, t, context))
        tokens, lost = decoder._tokens(t, y.tokens, h)  # type: ignore[attr-defined]
        moved, gone = LayerFlow(model=model.encoder, weights=nu.weights, positions=nu.positions)._tokens(
            t, y.context, h
        )
        return Pair(tokens, moved), lost | gone

    def _tokens(
        self, t: Float[Array, ""], x: Float[Array, "n d"], h: Float[Array, ""]
    ) -> tuple[Float[Array, "n d"], Bool[Array, ""]]:
        number = jnp.round(t / h).astype(int)
        model, vanished = self.model.at_layer(number), jnp.array(False)
        sublayers = model.sublayers(t, self.weights, self.positions)
        for norm, sublayer in zip(model.norms, sublayers, strict=True):
            x = norm.layer(t, x, sublayer, h)
            vanished |= isinstance(norm, AbstractSphereNorm) & (x == 0).all(axis=-1).any()
        if model.final is not None:
            x = jnp.where(number + 1 == self.model.length, model.final(x), x)
        return x, vanished

    def velocity(self, t, y):
        raise NotImplementedError("layers have no velocity")

    def retract(self, y):
        return y

    def error_size(self, error, y0, y1, rtol, atol):
        return jnp.zeros(())  # layers are exact

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit


def layer_flow(state: Any, model: Transformer) -> LayerFlow:
    """Return the layers of a model for tokens like `state`; raise ValueError if the model or the state does not support layers."""
    if not isinstance(state, Tokens):
        hint = wrap_hint(state) or ": sample it to tokens first"
        raise ValueError(f"layers moves Tokens, got {type(state).__name__}{hint}")
    if is_random(state, model):
        raise ValueError("layers has no noise: run a Transformer with noise with simulate(..., seed=...)")
    if model.fisher_rao is not None:
        raise ValueError("layers keeps the weights of tokens fixed: run a Transformer with fisher_rao with simulate")
    require_closed(state, model)
    check(state, model)
    check_space(state, model)
    return LayerFlow(model=model, weights=state.weights, positions=state.positions)


@eqx.filter_jit
def one_layer(model: Transformer, t, x, weights, positions, step):
    """Return the tokens after a layer, and whether the norm met one of length 0."""
    return LayerFlow(model=model, weights=weights, positions=positions).layer(t, x, step)
