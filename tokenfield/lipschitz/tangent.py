"""Tangent vectors transported by a flow."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..flows import AbstractFlow, Limits


class Carried(NamedTuple):
    """A point y and tangent vectors there, stacked on a leading axis."""

    y: Any
    tangents: Any


class TangentFlow(AbstractFlow):
    """`y' = f(t, y)`, `v' = D_y f(t, y) v` for every tangent vector v; times are measured from `begin`."""

    flow: AbstractFlow
    begin: Float[Array, ""]

    def pack(self, state):
        raise NotImplementedError("tangent vectors have no state of their own")

    def unpack(self, y):
        return self.flow.unpack(y.y)

    def velocity(self, t, y):
        f = lambda y: self.flow.velocity(self.begin + t, y)  # noqa: E731
        velocity, push = jax.linearize(f, y.y)
        return Carried(velocity, jax.vmap(push)(y.tangents))

    def retract(self, y):
        point, push = jax.linearize(self.flow.retract, y.y)
        return Carried(point, jax.vmap(push)(y.tangents))

    def relative_size(self, change, y0, y1, rtol, atol):
        own = self.flow.relative_size(change.y, y0.y, y1.y, rtol, atol)
        length = lambda tree: jnp.sqrt(  # noqa: E731
            sum(jnp.square(leaf).reshape(leaf.shape[0], -1).sum(1) for leaf in jax.tree.leaves(tree))
        )
        scale = jnp.maximum(length(y0.tangents), length(y1.tangents))
        return jnp.maximum(own, (length(change.tangents) / (atol + rtol * scale)).max())

    @property
    def limits(self):
        inner = self.flow.limits
        return Limits(
            contains=lambda y: inner.contains(y.y),
            vanishing=lambda y, velocity: inner.vanishing(y.y, velocity.y),
            hidden=lambda y: inner.hidden(y.y),
            hidden_reason=inner.hidden_reason,
            longest_step=lambda t, y: inner.longest_step(self.begin + t, y.y),
            overflow_advice=inner.overflow_advice,
        )

    @property
    def log_time_unit(self):
        return self.flow.log_time_unit
