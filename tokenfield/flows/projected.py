"""The flow of tokens in a given space."""

from typing import Any

from jaxtyping import Array, Float

from ..noise import AbstractNoise
from ..normalization import Projected
from ..spaces import AbstractSpace
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, Limits, largest_ratio


class ProjectedFlow(AbstractFlow):
    """`x' = P_x (Gamma_mu(x) + MLP(x))`, P_x the projection onto the tangent space at x.

    The velocity is evaluated at the projection of x onto the space, so that the last stage of a step stays valid after the
    retraction.
    """

    model: Transformer
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    @property
    def space(self) -> AbstractSpace:
        """The space in which the tokens move."""
        return self.model.space

    def pack(self, state):
        return state.x

    def unpack(self, y):
        return Tokens(y, self.weights, self.positions, self.space)

    def velocity(self, t, y):
        x = self.space.project(y)
        sublayers = self.model.sublayers(t, self.weights, self.positions)
        first, *others = (sublayer(x) for sublayer in sublayers)
        return self.space.tangent(x, sum(others, first))

    def retract(self, y):
        return self.space.project(y)

    def kick(self, noise: AbstractNoise, key: Any, y: Array, h: Float[Array, ""]) -> Array:
        """Return a random displacement in time h."""
        return noise.kick(key, y, h, self.space)

    def relative_size(self, change, y0, y1, rtol, atol):
        return largest_ratio(change, y0, y1, rtol, atol)

    @property
    def limits(self):
        return Limits()

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit


def check_space(state: Tokens, model: Transformer) -> None:
    """Raise ValueError unless tokens live in the space of a model."""
    given = state.given_space
    if given is not None and type(given) is not type(model.space):
        raise ValueError(
            f"state: the tokens live in {type(given).__name__}, but the model moves tokens in {type(model.space).__name__}"
        )
    if isinstance(model.norm, Projected):
        model.space.check_points(state.x)
