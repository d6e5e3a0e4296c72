"""The flow of tokens under a norm: directions on the unit sphere, and lengths that are fixed or evolve."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..noise import AbstractNoise
from ..normalization import AbstractSphereNorm
from ..normalization.base import lengths, unit
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, Limits, largest_length, length_ratio, time_to_zero

TOLERANCE = 1e-6


class Polar(NamedTuple):
    """Tokens as directions theta and lengths r; r is None if the norm fixes them."""

    theta: Float[Array, "n d"]
    r: Float[Array, " n"] | None


class SphereFlow(AbstractFlow):
    """`theta' = sum_a speed_a P A_a`, `r' = sum_a growth_a` over sublayers a (FORMULAS §7).

    The velocity is evaluated at `theta/|theta|`, so it is constant along rays, and the last stage of a step stays valid after
    the retraction.

    Where lengths evolve, `x' = A(x/|x|)` has no limit at x = 0, and a solution ends where a length reaches 0. With
    `ds = dt/r`, a short token obeys `d theta/ds = P A`, `d log r/ds = <theta, A>`, so it tends to a direction in which A is
    parallel to theta. If that direction is stable and `<theta, A> < 0` there (for example with V = -1), the token reaches 0 in
    finite time. Otherwise it passes near 0, at some positive distance, and the run continues.
    """

    model: Transformer
    norm: AbstractSphereNorm
    radial: bool = eqx.field(static=True)
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        return Polar(unit(state.x), lengths(state.x) if self._radius(state.d) is None else None)

    def unpack(self, y):
        r = self._radius(y.theta.shape[-1]) if y.r is None else y.r[:, None]
        return Tokens(r * y.theta, self.weights, self.positions)

    def _radius(self, d: int) -> Array | None:
        """Return the length that the norm fixes, or None."""
        return None if self.radial else self.norm.radius(d)

    def lengths(self, y: Polar) -> Float[Array, " n"]:
        """Return the lengths of the tokens."""
        n, d = y.theta.shape
        return jnp.full(n, self._radius(d)) if y.r is None else y.r  # type: ignore[arg-type]

    def velocity(self, t, y):
        theta, r = unit(y.theta), self.lengths(y)
        r = jnp.where(r > 0, r, jnp.nan)
        reads = self.norm.reads(theta)
        dtheta, dr = jnp.zeros_like(theta), jnp.zeros_like(r)
        for sublayer in self.model.sublayers(t, self.weights, self.positions, self.norm.reads_directions):
            A = sublayer(reads)
            inner, length = (theta * A).sum(-1), lengths(A)
            speed = self.norm.speed(t, r, inner, length)
            dtheta += jnp.atleast_1d(speed)[:, None] * (A - inner[:, None] * theta)
            dr += self.norm.growth(t, r, inner, length)
        return Polar(dtheta, None if y.r is None else dr)

    def retract(self, y):
        return Polar(unit(y.theta), y.r)

    def kick(self, noise: AbstractNoise, key: Any, y: Polar, h: Float[Array, ""]) -> Polar:
        """Return a random displacement in time h: on a sphere of radius R that of directions in time `h / R²`."""
        kick = noise.kick(key, y.theta, h / self.lengths(y)[0] ** 2, self.model.space)
        return Polar(kick, None if y.r is None else jnp.zeros_like(y.r))

    def relative_size(self, change, y0, y1, rtol, atol):
        size = largest_length(change.theta) / (atol + rtol)  # directions have length 1
        if not self.radial:
            return size
        return jnp.maximum(size, length_ratio(change.r, y0.r, y1.r, rtol, atol))

    @property
    def limits(self):
        if not self.radial:
            return Limits()
        return Limits(
            contains=lambda y: (y.r > 0).all(),
            vanishing=lambda y, velocity: time_to_zero(y.r, velocity.r, jnp.linalg.norm(velocity.theta, axis=-1)),
        )

    @property
    def log_time_unit(self):
        return jnp.zeros(()) if self.norm.scale_free else -self.model.attention.log_unit


def wrong_lengths(states: Sequence[np.ndarray], norm: AbstractSphereNorm) -> int | None:
    """Return the index of the first array of tokens whose lengths the norm does not allow, or None."""
    radius = norm.radius(states[0].shape[1])
    if radius is None:
        bad = [not np.linalg.norm(x, axis=1).all() for x in states]
    else:
        far = TOLERANCE * float(radius)
        bad = [np.abs(np.sqrt(np.einsum("ij,ij->i", x, x)) - float(radius)).max() > far for x in states]
    return bad.index(True) if any(bad) else None


def check_directions(state: Tokens, norm: AbstractSphereNorm) -> np.ndarray:
    """Return the lengths of the tokens; raise ValueError if one of them has no direction."""
    name = type(norm).__name__
    if state.d < 2:
        raise ValueError(f"{name} moves tokens on a sphere and needs d >= 2, got tokens in R^{state.d}")
    found = np.linalg.norm(np.asarray(state.x), axis=1)
    if (found == 0).any():
        raise ValueError(f"{name} needs tokens of positive length, but token {int(np.argmin(found))} is zero")
    return found


def check_lengths(state: Tokens, norm: AbstractSphereNorm) -> None:
    """Raise ValueError unless the tokens have the length that the norm fixes."""
    if not is_concrete(state.x):
        return
    found, radius, name = check_directions(state, norm), norm.radius(state.d), type(norm).__name__
    if radius is None or not is_concrete(radius):
        return
    worst = int(np.argmax(np.abs(found - float(radius))))
    if abs(found[worst] - float(radius)) > TOLERANCE * float(radius):
        raise ValueError(
            f"{name} keeps tokens on the sphere of radius {float(radius):g}, but token {worst} has length "
            f"{found[worst]:.6g}: normalize them first, e.g. with tokens.normalized()"
        )
