"""nGPT: move a given angle towards the sublayer's direction."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from .._check import as_float, shape_of
from .._types import Number, OfTime
from .base import AbstractDirectionNorm, forever, inverse, plus, unit


class NGPT(AbstractDirectionNorm):
    """nGPT, `x <- N(x + h alpha N(A(x)))`: `theta' = alpha P A / |A|` on the unit sphere (FORMULAS §7).

    Args:
        alpha: the rate, a number or a function of time.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.NGPT(alpha=0.5)
    """

    alpha: Array | Callable
    radial: ClassVar[bool] = False
    scale_free: ClassVar[bool] = True

    def __init__(self, alpha: Number | OfTime = 1.0):
        self.alpha = alpha if callable(alpha) else as_float("alpha", alpha, 0)

    def check(self, d):
        if shape := shape_of("alpha", self.alpha):
            raise ValueError(f"alpha must be a number at every time, got shape {shape}")

    def segments(self):
        return forever(self)

    def rate(self, t):
        return self.alpha(t) if callable(self.alpha) else self.alpha

    def speed(self, t, r, inner, length):
        return self.rate(t) * inverse(length)

    def growth(self, t, r, inner, length):
        return jnp.zeros_like(r)

    def radius(self, d):
        return jnp.ones(())

    def inputs(self, t, x):
        return x

    def layer(self, t, x, sublayer, h):
        return unit(plus(x, h * self.rate(t) * unit(sublayer(x))))
