"""nGPT: rotate tokens toward the direction of the sublayer's output."""

import math
from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from .._check import as_float, shape_of
from .._types import Number, OfTime
from .base import AbstractDirectionNorm, TerminalLaw, forever, inverse, plus, unit


class NGPT(AbstractDirectionNorm):
    """nGPT, `x <- N(x + h alpha N(A(x)))`: `theta' = alpha P A / |A|` on the unit sphere (FORMULAS §7).

    Args:
        alpha: the rate, a number or a function of time.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.NGPT(alpha=0.5)
        NGPT(alpha=0.5)
    """

    alpha: Array | Callable
    kind: ClassVar[str] = "ngpt"
    title: ClassVar[str] = "nGPT"
    slowness: ClassVar[str] = "s = |A|/alpha"
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

    def terminal_law(self, scale):
        if callable(self.alpha):
            return TerminalLaw("exp(-2 ∫ alpha dt)", "exponential", math.nan)
        rate = 2 * float(self.alpha)
        return TerminalLaw(f"exp(-{rate:.6g} t)", "exponential", rate)

    def random_weight_law(self, step):
        if callable(self.alpha):
            raise ValueError("norm must have a constant alpha: with alpha(t) the law is prod 1/(1 + (h alpha)^2)")
        rate = math.log1p((step * float(self.alpha)) ** 2)
        return TerminalLaw(f"exp(-{rate:.6g} l)", "exponential", rate)
