"""Tokens under a norm: directions on the unit sphere, with lengths that are fixed or evolve."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..normalization import AbstractSphereNorm
from ..normalization.base import unit
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, largest_ratio

TOLERANCE = 1e-6


class Polar(NamedTuple):
    """Tokens as directions theta and lengths r."""

    theta: Float[Array, "n d"]
    r: Float[Array, " n"]


class SphereFlow(AbstractFlow):
    """`theta' = sum_a speed_a P A_a`, `r' = sum_a growth_a` over sublayers a (FORMULAS §7).

    The field is evaluated at `theta/|theta|`, so it is constant along rays and a step's last stage stays valid
    after the retraction.
    """

    model: Transformer
    norm: AbstractSphereNorm
    radial: bool = eqx.field(static=True)
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        r = jnp.linalg.norm(state.x, axis=-1)
        radius = None if self.radial else self.norm.radius(state.d)
        return Polar(unit(state.x), r if radius is None else jnp.full_like(r, radius))

    def unpack(self, y):
        return Tokens(y.r[:, None] * y.theta, self.weights, self.positions)

    def velocity(self, t, y):
        theta = unit(y.theta)
        reads = self.norm.reads(theta)
        dtheta, dr = jnp.zeros_like(theta), jnp.zeros_like(y.r)
        on_unit_sphere = reads is theta
        for sublayer in self.model.sublayers(t, self.weights, self.positions, on_unit_sphere):
            A = sublayer(reads)
            inner, length = (theta * A).sum(-1), jnp.linalg.norm(A, axis=-1)
            speed = self.norm.speed(t, y.r, inner, length)
            dtheta += jnp.atleast_1d(speed)[:, None] * (A - inner[:, None] * theta)
            dr += self.norm.growth(t, y.r, inner, length)
        return Polar(dtheta, dr)

    def retract(self, y):
        return Polar(unit(y.theta), y.r)

    def error_size(self, error, y0, y1, rtol, atol):
        size = largest_ratio(error.theta, y0.theta, y1.theta, rtol, atol)
        if not self.radial:
            return size
        return jnp.maximum(size, largest_ratio(error.r[:, None], y0.r[:, None], y1.r[:, None], rtol, atol))

    @property
    def log_time_unit(self):
        return jnp.zeros(()) if self.norm.scale_free else -self.model.attention.log_unit


def wrong_lengths(states: Sequence[np.ndarray], norm: AbstractSphereNorm) -> int | None:
    """The first of many arrays of tokens whose lengths the norm does not allow."""
    radius = norm.radius(states[0].shape[1])
    if radius is None:
        bad = [not np.linalg.norm(x, axis=1).all() for x in states]
    else:
        far = TOLERANCE * float(radius)
        bad = [np.abs(np.sqrt(np.einsum("ij,ij->i", x, x)) - float(radius)).max() > far for x in states]
    return bad.index(True) if any(bad) else None


def check_lengths(state: Tokens, norm: AbstractSphereNorm) -> None:
    """Raise a ValueError unless the tokens start where the norm keeps them."""
    name = type(norm).__name__
    if state.d < 2:
        raise ValueError(f"{name} moves tokens on a sphere and needs d >= 2, got tokens in R^{state.d}")
    lengths = np.linalg.norm(np.asarray(state.x), axis=1)
    radius = norm.radius(state.d)
    if radius is None:
        if (lengths == 0).any():
            raise ValueError(f"{name} needs tokens of positive length, but token {int(np.argmin(lengths))} is zero")
        return
    worst = int(np.argmax(np.abs(lengths - float(radius))))
    if abs(lengths[worst] - float(radius)) > TOLERANCE * float(radius):
        raise ValueError(
            f"{name} keeps tokens on the sphere of radius {float(radius):g}, but token {worst} has length "
            f"{lengths[worst]:.6g}: normalise them first, e.g. with tokens.normalized()"
        )
