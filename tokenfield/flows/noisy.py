"""Tokens that move at random: a flow with kicks."""

import jax.numpy as jnp
import numpy as np

from ..noise import AbstractNoise
from ..normalization import NoNorm, PostLN
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractNoisyFlow
from .free import FreeFlow
from .sphere import Polar, SphereFlow


class NoisyFlow(AbstractNoisyFlow):
    """`dy = velocity(t, y) dt + noise`: the flow of the tokens without noise, and the noise that kicks them.

    On a sphere of radius R (`PostLN` with a gain) directions feel the noise for a time `h / R²`.
    """

    flow: SphereFlow | FreeFlow
    noise: AbstractNoise

    def pack(self, state):
        return self.flow.pack(state)

    def unpack(self, y):
        return self.flow.unpack(y)

    def velocity(self, t, y):
        return self.flow.velocity(t, y)

    def retract(self, y):
        return self.flow.retract(y)

    def error_size(self, error, y0, y1, rtol, atol):
        return self.flow.error_size(error, y0, y1, rtol, atol)

    @property
    def log_time_unit(self):
        return self.flow.log_time_unit

    def kick(self, key, t, y, h):
        if isinstance(y, Polar):
            return Polar(self.noise.kick(key, y.theta, h / y.r[0] ** 2), jnp.zeros_like(y.r))
        return self.noise.kick(key, y, h)

    def rate(self, state):
        return max(drift_rate(self.flow.model, state), float(self.noise.rate(state.x)))


def noise_obstacle(model: Transformer) -> str | None:
    """Why tokens cannot move under the noise of a model; None when they can."""
    noise = model.noise
    if noise is None or isinstance(model.norm, PostLN if noise.on_sphere else NoNorm):
        return None
    name, norm = type(noise).__name__, type(model.norm).__name__
    if noise.on_sphere:
        return f"{name} moves tokens on the sphere and needs norm=PostLN(), got {norm}"
    return f"{name} moves tokens in R^d and needs NoNorm, got {norm} (under PostLN use SphereNoise)"


def drift_rate(model: Transformer, state: Tokens) -> float:
    """About the fastest rate of the drift: `(1 + |A| R²) |drift|/R` with all tokens at the place of the longest one.

    R is that token's length and |A| the largest norm of a head's score; time-dependent parts are taken at t = 0.
    """
    t, d = jnp.zeros(()), state.d
    x = np.asarray(state.x)
    longest = x[np.argmax(np.linalg.norm(x, axis=1))]
    R = max(float(np.linalg.norm(longest)), 1e-3)
    sublayers = model.sublayers(t, jnp.ones(1), jnp.ones(1))
    speed = sum(float(jnp.linalg.norm(sublayer(jnp.asarray(longest)[None]))) for sublayer in sublayers)
    sharpness = 0.0
    for head in model.attention.heads:
        q, k, _ = head.score.factors(t, jnp.eye(d))
        sharpness = max(sharpness, float(jnp.linalg.norm(q @ k.T, 2)))
    return (1 + sharpness * R**2) * speed / R
