"""Mix-LN: Post-LN first, Pre-LN later."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._check import positive
from .base import AbstractSphereNorm
from .post_ln import PostLN
from .pre_ln import PreLN


class MixLN(AbstractSphereNorm):
    """Post-LN up to time tau, Pre-LN after it, the radius starting from 1 at tau (FORMULAS §7).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.MixLN(tau=1.5))
    """

    tau: float = eqx.field(static=True)
    radial: ClassVar[bool] = True

    def __init__(self, tau: float):
        self.tau = positive("tau", tau)

    def speed(self, t, r, inner, length):
        return jnp.where(t <= self.tau, 1.0, 1 / r)

    def growth(self, t, r, inner, length):
        return jnp.where(t <= self.tau, 0.0, inner)

    def layer(self, t, x, sublayer, h):
        return jnp.where(t < self.tau, PostLN().layer(t, x, sublayer, h), PreLN().layer(t, x, sublayer, h))

    def radius(self, d):
        return jnp.ones(())

    def segments(self):
        return ((self.tau, PostLN()), (float("inf"), PreLN()))
