"""Tokens as points of R^d, and their free flow."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..noise import AbstractNoise
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, Limits, largest_ratio


class AbstractPointsFlow(AbstractFlow):
    """A flow whose unknowns are the tokens' coordinates themselves."""

    weights: eqx.AbstractVar[Float[Array, " n"]]
    positions: eqx.AbstractVar[Float[Array, " n"]]

    def pack(self, state):
        return state.x

    def unpack(self, y):
        return Tokens(y, self.weights, self.positions)

    def retract(self, y):
        return y

    def relative_size(self, change, y0, y1, rtol, atol):
        return largest_ratio(change, y0, y1, rtol, atol)


class FreeFlow(AbstractPointsFlow):
    """`x' = Gamma_mu(x) (+ MLP(x))` in R^d (FORMULAS §2); sublayers with a `PreNorm` act on its map of x."""

    model: Transformer
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def velocity(self, t, y):
        sublayers = self.model.sublayers(t, self.weights, self.positions)
        pairs = zip(self.model.norms, sublayers, strict=True)
        return sum(sublayer(norm.inputs(t, y)) for norm, sublayer in pairs)

    def kick(self, noise: AbstractNoise, key: Any, y: Array, h: Float[Array, ""]) -> Array:
        """Return a random displacement in time h."""
        return noise.kick(key, y, h, self.model.space)

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit

    @property
    def limits(self):
        return Limits(overflow_advice="stop earlier, or follow z = e^(-tV) x with norm=Rescaled()")
