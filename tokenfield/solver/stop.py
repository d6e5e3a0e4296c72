"""Apply a stop rule for states to the unknowns of a flow."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float

from ..flows import AbstractFlow
from ..stop_rule import AbstractStopRule


class OnFlow(eqx.Module):
    """A stop rule as a function of the unknowns y of a flow instead of the state."""

    rule: AbstractStopRule

    @property
    def differentiable(self) -> bool:
        return self.rule.differentiable

    def margin(self, t: Float[Array, ""], y: Any, flow: AbstractFlow) -> Float[Array, ""]:
        """Return the margin of the rule, which holds where the margin is >= 0."""
        return self.rule.margin(t, flow.unpack(y), self._velocity(t, y, flow))

    def __call__(self, t: Float[Array, ""], y: Any, flow: AbstractFlow) -> Bool[Array, ""]:
        return self.rule(t, flow.unpack(y), self._velocity(t, y, flow))

    @staticmethod
    def _velocity(t, y, flow):
        return lambda: jax.jvp(flow.unpack, (y,), (flow.velocity(t, y),))[1]
