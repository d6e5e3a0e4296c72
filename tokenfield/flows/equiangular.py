"""The flow of equiangular tokens under a Transformer with a norm: one cosine and one radius (FORMULAS §7).

The attention output at token j is `A_j = a theta_j + c sum_{k≠j} theta_k`, so that
`rho' = 2 speed c (1 - rho)(1 + (n-1) rho)`. The unknown is the gap `1 - rho`, which keeps its relative accuracy.
"""

from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import is_concrete
from .._shown import shown
from ..attention import AbstractAttention, AbstractPairwise, Sinkhorn, heads_and_outputs
from ..attention.sums import divide
from ..normalization import AbstractSphereNorm
from ..states import Equiangular
from ..transformer import Transformer
from .base import (
    AbstractFlow,
    Limits,
    Segment,
    admit,
    length_ratio,
    obstacle,
    require_closed,
    rules_in_time,
    segments,
    time_to_zero,
)

TOLERANCE = 1e-6


class Angle(NamedTuple):
    """The gap `u = 1 - rho` and the radius r."""

    u: Float[Array, ""]
    r: Float[Array, ""]


class EquiangularFlow(AbstractFlow):
    """`u' = -2 speed c u (n - (n-1) u)`, `r' = growth`."""

    model: Transformer
    norm: AbstractSphereNorm
    n: int = eqx.field(static=True)

    def pack(self, state):
        return Angle(state.gap, state.radius)

    def unpack(self, y):
        return Equiangular(1 - y.u, self.n, y.r, gap=y.u)

    def velocity(self, t, y):
        n, u, r = self.n, y.u, jnp.where(y.r > 0, y.r, jnp.nan)
        a, c = coefficients(self.model.attention, t, u, n)
        rho = 1 - u
        inner = a + (n - 1) * c * rho
        square = a * a + (n - 1) * c * (2 * a * rho + c * (1 + (n - 2) * rho))
        length = jnp.where(square == 0, 0, jnp.sqrt(jnp.where(square == 0, 1, square)))  # differentiable at 0
        speed = self.norm.speed(t, r, inner, length)
        growth = self.norm.growth(t, r, inner, length)
        return Angle(-2 * speed * c * u * (n - (n - 1) * u), jnp.asarray(growth) * jnp.ones_like(y.r))

    def retract(self, y):
        return y

    def relative_size(self, change, y0, y1, rtol, atol):
        """Measure the gap to relative accuracy `rtol + atol`, however small it is; the radius as for tokens."""
        smaller = jnp.minimum(jnp.abs(y0.u), jnp.abs(y1.u))
        gap = jnp.where(change.u == 0, 0, jnp.abs(change.u) / ((rtol + atol) * smaller))
        return jnp.maximum(gap, length_ratio(change.r, y0.r, y1.r, rtol, atol))

    @property
    def limits(self):
        return Limits(
            contains=lambda y: y.r > 0,
            vanishing=lambda y, velocity: time_to_zero(y.r, velocity.r, jnp.abs(velocity.u)),
        )

    @property
    def log_time_unit(self):
        return jnp.zeros(()) if self.norm.scale_free else -self.model.attention.log_unit


@singledispatch
def pair(head: Any, t: Float[Array, ""], u: Float[Array, ""], n: int) -> tuple[Array, Array]:
    """Return `(a, c)`: the coefficients of the token itself and of each other token, before V. Registered for each kernel."""
    raise NotImplementedError(type(head).__name__)


@pair.register(AbstractPairwise)
def _(head, t, u, n):
    """`phi(b)/n` and `phi(b rho)/n`; if normalized, `phi(b)/Z` and `phi(b rho)/Z` with `Z = phi(b) + (n-1) phi(b rho)`."""
    b = head.score.sharpness(t, u)
    if head.softmax:
        return softmax_pair(b * u, n)
    own, other = head.phi(b), head.phi(b - b * u)
    Z = own + (n - 1) * other if head.normalized else jnp.asarray(float(n))
    return divide(own, Z), divide(other, Z)


@pair.register(Sinkhorn)
def _(head, t, u, n):
    """Softmax: all rows have the same entries, so with normalized rows the columns sum to 1 too."""
    return softmax_pair(head.score.sharpness(t, u) * u, n)


def softmax_pair(z: Float[Array, ""], n: int) -> tuple[Array, Array]:
    """Return `1/(1 + (n-1) e^{-z})` and `e^{-z}/(1 + (n-1) e^{-z})` for any z, without overflow."""
    above = z >= 0
    small = jnp.exp(jnp.where(above, -z, z))
    whole = jnp.where(above, 1 + (n - 1) * small, small + (n - 1))
    return jnp.where(above, 1, small) / whole, jnp.where(above, small, 1) / whole


def coefficients(attention: AbstractAttention, t: Array, u: Array, n: int) -> tuple[Array, Array]:
    """Return `(a, c)` summed over heads, with values and output maps, in the attention's time unit."""
    a, c = jnp.zeros_like(u), jnp.zeros_like(u)
    for head, output in heads_and_outputs(attention):
        scale = output(t, head.value(t, jnp.ones((1, 1))))[0, 0] * jnp.exp(head.log_unit - attention.log_unit)
        own, other = pair(head, t, u, n)
        a, c = a + scale * own, c + scale * other
    return a, c


@segments.register(Equiangular)
def _(state: Equiangular, model: Transformer) -> tuple[Segment, ...]:
    require_closed(state, model)
    model.attention.check(2)
    admit(state, model)
    return tuple(Segment(end, EquiangularFlow(model, rule, state.n)) for end, rule in rules_in_time(model))


@admit.register(Equiangular)
def _(state: Equiangular, model: Transformer) -> None:
    radius = model.norm.radius(2)  # type: ignore[attr-defined]
    if radius is None or not is_concrete(radius, state.radius):
        return
    if abs(float(state.radius) - float(radius)) > TOLERANCE:
        raise ValueError(
            f"{type(model.norm).__name__} keeps tokens on the unit sphere, got radius = {shown(float(state.radius))}"
        )


@obstacle(Equiangular)
def _(model: Transformer) -> str | None:
    if not isinstance(model.norm, AbstractSphereNorm):
        return f"{type(model.norm).__name__} does not keep directions on the sphere (use PostLN, PreLN, …)"
    if model.fisher_rao is not None:
        return "fisher_rao changes the weights of tokens"
    if not model.norm.isotropic:
        return "a gain changes angles"
    if model.mlp is not None or model.noise is not None:
        return "an MLP or noise changes the angles differently"
    if not model.attention.isotropic:
        return "all angles stay equal only under isotropic attention (beta, with V a number)"
    for head in model.attention.heads:
        if head.uses_positions:
            return "a causal mask or rules for positions change the angles differently"
        if pair.dispatch(type(head)) is pair.dispatch(object):
            return f"{type(head).__name__} attention is not continuous in the angle"
    return None
