"""How a Transformer with a norm moves equiangular tokens: one cosine and one radius (FORMULAS §7).

Attention gives token j the vector `A_j = a theta_j + c sum_{k≠j} theta_k`, so that
`rho' = 2 speed c (1 - rho)(1 + (n-1) rho)`. The unknown is the gap `1 - rho`, to relative accuracy.
"""

from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import AbstractAttention, AbstractPairwise, Sinkhorn, heads_and_outputs
from ..normalization import AbstractSphereNorm
from ..states import Equiangular
from ..transformer import Transformer
from .base import AbstractFlow, Segment, admit, largest_ratio, obstacle, require_closed, rules_in_time, segments

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
        n, u = self.n, y.u
        a, c = coefficients(self.model.attention, t, u, n)
        rho = 1 - u
        inner = a + (n - 1) * c * rho
        length = jnp.sqrt(a * a + (n - 1) * c * (2 * a * rho + c * (1 + (n - 2) * rho)))
        speed = self.norm.speed(t, y.r, inner, length)
        growth = self.norm.growth(t, y.r, inner, length)
        return Angle(-2 * speed * c * u * (n - (n - 1) * u), jnp.asarray(growth) * jnp.ones_like(y.r))

    def retract(self, y):
        return y

    def error_size(self, error, y0, y1, rtol, atol):
        """The gap to relative accuracy `rtol + atol`, however small; the radius as everywhere."""
        smaller = jnp.minimum(jnp.abs(y0.u), jnp.abs(y1.u))
        gap = jnp.where(error.u == 0, 0, jnp.abs(error.u) / ((rtol + atol) * smaller))
        row = lambda a: a[None]  # noqa: E731
        return jnp.maximum(gap, largest_ratio(row(error.r), row(y0.r), row(y1.r), rtol, atol))

    @property
    def log_time_unit(self):
        return jnp.zeros(()) if self.norm.scale_free else -self.model.attention.log_unit


@singledispatch
def pair(head: Any, t: Float[Array, ""], u: Float[Array, ""], n: int) -> tuple[Array, Array]:
    """`(a, c)`: what a head gives to the token itself and to each other one, before V. Registered by kind of kernel."""
    raise NotImplementedError(type(head).__name__)


@pair.register(AbstractPairwise)
def _(head, t, u, n):
    """`phi(b)/n` and `phi(b rho)/n`, or, normalised, `e^b/Z` and `e^{b rho}/Z` with `Z = e^b + (n-1) e^{b rho}`."""
    b = head.score.sharpness(t, u)
    if not head.stochastic:
        return head.phi(b) / n, head.phi(b - b * u) / n
    return 1 / (1 + (n - 1) * jnp.exp(-b * u)), 1 / (jnp.exp(b * u) + (n - 1))


@pair.register(Sinkhorn)
def _(head, t, u, n):
    """All rows are alike, so the normalised rows already sum to 1 along columns too: softmax."""
    b = head.score.sharpness(t, u)
    return 1 / (1 + (n - 1) * jnp.exp(-b * u)), 1 / (jnp.exp(b * u) + (n - 1))


def coefficients(attention: AbstractAttention, t: Array, u: Array, n: int) -> tuple[Array, Array]:
    """`(a, c)` summed over heads, with values and output maps, in the attention's unit."""
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
    if radius is not None and abs(float(state.radius) - float(radius)) > TOLERANCE:
        raise ValueError(
            f"{type(model.norm).__name__} keeps tokens on the unit sphere, got radius = {float(state.radius)!r}"
        )


@obstacle(Equiangular)
def _(model: Transformer) -> str | None:
    if not isinstance(model.norm, AbstractSphereNorm):
        return f"{type(model.norm).__name__} does not move directions on the sphere (use PostLN, PreLN, …)"
    if model.fisher_rao is not None:
        return "fisher_rao moves the weights of tokens"
    if not model.norm.isotropic:
        return "a gain changes angles"
    if model.mlp is not None or model.noise is not None:
        return "an MLP or noise changes each angle by itself"
    if not model.attention.isotropic:
        return "only isotropic attention (beta, with V a number) changes all angles alike"
    for head in model.attention.heads:
        if head.causal:
            return "a causal mask changes each angle by itself"
        if pair.dispatch(type(head)) is pair.dispatch(object):
            return f"{type(head).__name__} attention jumps with the angle"
    return None
