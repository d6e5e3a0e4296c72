"""Mix-LN: Post-LN first, Pre-LN later."""

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._check import is_concrete, positive_number
from .._types import Number
from .base import AbstractDirectionNorm, unit
from .post_ln import PostLN
from .pre_ln import PreLN


class MixLN(AbstractDirectionNorm):
    """Post-LN until time tau, then Pre-LN with radius 1 at tau (FORMULAS §7).

    Args:
        tau: the time of the switch, >= 0.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.MixLN(tau=1.5))
        Transformer(Softmax(beta=2.0), norm=MixLN(tau=1.5))
    """

    tau: Array
    kind: ClassVar[str] = "mix"
    title: ClassVar[str] = "Mix-LN"
    slowness: ClassVar[str] = "s = 1 until tau, then r"
    radial: ClassVar[bool] = True

    def __init__(self, tau: Number):
        self.tau = positive_number("tau", tau)

    def speed(self, t, r, inner, length):
        return jnp.where(t <= self.tau, 1.0, 1 / r)

    def growth(self, t, r, inner, length):
        return jnp.where(t <= self.tau, 0.0, inner)

    def layer(self, t, x, sublayer, h):
        return jnp.where(t < self.tau, PostLN().layer(t, x, sublayer, h), PreLN().layer(t, x, sublayer, h))

    def radius(self, d):
        return jnp.ones(())

    def inputs(self, t, x):
        return jnp.where(t < self.tau, x, unit(x))

    def segments(self):
        until = float(np.asarray(self.tau)) if is_concrete(self.tau) else self.tau
        return (until, PostLN()), (math.inf, PreLN())

    def check(self, d):
        pass

    def terminal_law(self, scale):
        return PreLN().terminal_law(scale)

    def random_weight_law(self, step):
        return PreLN().random_weight_law(step)
