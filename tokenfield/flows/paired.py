"""A decoder and its encoder: tokens that attend to a context, and the context, which moves by its own model."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import Measure
from ..normalization import AbstractNorm
from .base import AbstractFlow, Limits


class Pair(NamedTuple):
    """The unknowns of the tokens, and those of the context."""

    tokens: Any
    context: Any


class PairedFlow(AbstractFlow):
    """`(x, y)' = (velocity of x given the context y, velocity of y)` (FORMULAS §13). The state is that of the tokens x.

    Args:
        decoder: the flow of the tokens, whose model has a context.
        encoder: the flow of the context.
        norm: the encoder's norm; the tokens read the context through it, as the encoder's own sublayers do.
        start: the context at time 0.
    """

    decoder: AbstractFlow
    encoder: AbstractFlow
    norm: AbstractNorm
    start: Any

    def pack(self, state):
        return Pair(self.decoder.pack(state), self.encoder.pack(self.start))

    def unpack(self, y):
        return self.decoder.unpack(y.tokens)

    def velocity(self, t, y):
        given = with_context(self.decoder, read(self.norm, t, self.encoder.unpack(y.context)))
        return Pair(given.velocity(t, y.tokens), self.encoder.velocity(t, y.context))

    def retract(self, y):
        return Pair(self.decoder.retract(y.tokens), self.encoder.retract(y.context))

    def relative_size(self, change, y0, y1, rtol, atol):
        sizes = (
            self.decoder.relative_size(change.tokens, y0.tokens, y1.tokens, rtol, atol),
            self.encoder.relative_size(change.context, y0.context, y1.context, rtol, atol),
        )
        return jnp.maximum(*sizes)

    @property
    def limits(self):
        decoder, encoder = self.decoder.limits, self.encoder.limits

        def vanishing(y: Pair, velocity: Pair) -> tuple[Array, Array]:
            mine, theirs = decoder.vanishing(y.tokens, velocity.tokens), encoder.vanishing(y.context, velocity.context)
            first = mine[0] <= theirs[0]
            return jnp.where(first, mine[0], theirs[0]), jnp.where(first, mine[1], theirs[1])

        return Limits(
            contains=lambda y: decoder.contains(y.tokens) & encoder.contains(y.context),
            vanishing=vanishing,
            overflow_advice=decoder.overflow_advice,
        )

    @property
    def log_time_unit(self):
        return self.decoder.log_time_unit


def read(norm: AbstractNorm, t: Float[Array, ""], context: Any) -> Measure:
    """Return a context as sublayers under its norm read it."""
    return Measure(norm.inputs(t, context.x), context.weights, context.positions)


def with_context(flow: AbstractFlow, context: Any) -> AbstractFlow:
    """Return the flow of a model with another context."""
    return eqx.tree_at(lambda flow: flow.model.context, flow, context)
