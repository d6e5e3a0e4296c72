"""Densities under common noise: one Brownian motion moves all tokens, so the density itself is random."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import is_concrete
from ..noise import AbstractNoise
from ..spaces import Sphere
from ..spaces.sphere import unit
from ..states import AbstractDensity, Tokens
from ..transformer import Transformer
from .base import AbstractNoisyFlow
from .density_field import DensityField
from .density_modes import density_limits
from .noisy import drift_rate


class Points(NamedTuple):
    """Points of the sphere that carry the mass of a density during a step."""

    x: Float[Array, "N d"]
    weights: Float[Array, " N"]


class RandomDensityFlow(AbstractNoisyFlow):
    """`dp = -∇·(p u) dt + (1/kappa) Δp dt - sqrt(2/kappa) ∇·(p P_x dB)` (Itô), B one Brownian motion of R^d.

    A step moves the nodes of the basis like tokens, with the velocity and the kicks of their scheme, and computes the
    coefficients of the moved points. So for each path of B a density agrees with its tokens, at any step size.
    """

    model: Transformer
    noise: AbstractNoise
    state: AbstractDensity
    field: DensityField

    def pack(self, state):
        return state.coefficients

    def unpack(self, y):
        return self.state.replaced(y)

    def scattered(self, y):
        return Points(*self.field.spread(y))

    def gathered(self, y):
        return self.field.pushed(y.x, y.weights)

    def velocity(self, t, y):
        c = self.field.pushed(y.x, y.weights)
        return Points(self.field.tangent(c, y.x), jnp.zeros_like(y.weights))

    def retract(self, y):
        return Points(unit(y.x), y.weights) if isinstance(y, Points) else y

    def relative_size(self, change, y0, y1, rtol, atol):
        return jnp.zeros(())  # steps are fixed

    def kick(self, key, t, y, h):
        return Points(self.noise.kick(key, y.x, h, Sphere()), jnp.zeros_like(y.weights))

    @property
    def limits(self):
        return density_limits(self.state)

    def rate(self, state):
        token = jnp.eye(state.d)[:1]
        fastest = jnp.maximum(drift_rate(self.model, Tokens(token)), self.noise.rate(token, Sphere()))
        return float(fastest) if is_concrete(fastest) else fastest

    @property
    def log_time_unit(self) -> Any:
        return -self.model.attention.log_unit
