"""The flow of tokens with noise."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._check import is_concrete
from ..noise import AbstractNoise
from ..normalization import NoNorm, PostLN, Projected
from ..spaces import Euclidean, Sphere
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractNoisyFlow
from .free import FreeFlow
from .projected import ProjectedFlow
from .sphere import SphereFlow


class NoisyFlow(AbstractNoisyFlow):
    """`dy = velocity(t, y) dt + noise`: the flow of the tokens without noise, plus random kicks.

    On a sphere of radius R (`PostLN` with a gain), the noise acts on directions for a time `h / R²`.
    """

    flow: SphereFlow | FreeFlow | ProjectedFlow
    noise: AbstractNoise

    def pack(self, state):
        return self.flow.pack(state)

    def unpack(self, y):
        return self.flow.unpack(y)

    def velocity(self, t, y):
        return self.flow.velocity(t, y)

    def retract(self, y):
        return self.flow.retract(y)

    def relative_size(self, change, y0, y1, rtol, atol):
        return self.flow.relative_size(change, y0, y1, rtol, atol)

    @property
    def limits(self):
        return self.flow.limits

    @property
    def log_time_unit(self):
        return self.flow.log_time_unit

    def scattered(self, y):
        return y

    def gathered(self, y):
        return y

    def kick(self, key, t, y, h):
        return self.flow.kick(self.noise, key, y, h)

    def rate(self, state):
        model = self.flow.model
        noise = jax.lax.stop_gradient(self.noise.rate(state.x, model.space))
        fastest = jnp.maximum(drift_rate(model, state), noise)
        return float(fastest) if is_concrete(fastest) else fastest


def noise_obstacle(model: Transformer) -> str | None:
    """Return why the noise of a model does not fit its norm, or None if it does."""
    noise = model.noise
    if noise is None:
        return None
    stays, fits = isinstance(model.norm, (PostLN, NoNorm, Projected)), isinstance(model.space, noise.space)
    if stays and fits:
        return None
    name, norm, space = (type(part).__name__ for part in (noise, model.norm, model.space))
    if noise.space is Sphere:
        return f"{name} moves tokens on the sphere and needs norm=PostLN(), got {norm}"
    if noise.space is Euclidean:
        return f"{name} moves tokens in R^d and needs NoNorm, got {norm} (under PostLN use SphereNoise)"
    if not fits:
        return f"{name} needs a space with a Brownian motion, and {space} has none (no method `brownian`)"
    return f"{name} needs tokens that stay in their space, as under PostLN, NoNorm or Projected, got {norm}"


def drift_rate(model: Transformer, state: Tokens) -> Array:
    """Return an estimate of the fastest rate of the drift, `(1 + |A| R²) |drift|/R`, with all tokens placed at the longest one.

    R is the length of that token and |A| the largest norm of a head's score. Time-dependent parts are taken at t = 0.
    Derivatives treat the rate as a constant, because it only sets a step size.
    """
    t, d, x = jnp.zeros(()), state.d, state.x
    longest = x[jnp.argmax(jnp.linalg.norm(x, axis=1))]
    R = jnp.maximum(jnp.linalg.norm(longest), 1e-3)
    sublayers = model.sublayers(t, jnp.ones(1), jnp.ones(1))
    speed = jnp.stack([jnp.linalg.norm(sublayer(longest[None])) for sublayer in sublayers]).sum()
    factors = [head.score.factors(t, jnp.eye(d), jnp.eye(d))[:2] for head in model.attention.heads]
    sharpness = jnp.stack([jnp.linalg.norm(jax.lax.stop_gradient(q @ k.T), 2) for q, k in factors]).max()
    return jax.lax.stop_gradient((1 + sharpness * R**2) * speed / R)
