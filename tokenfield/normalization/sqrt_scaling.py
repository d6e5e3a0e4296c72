"""Depth scaling by 1/sqrt(t + 1)."""

from typing import ClassVar

import jax.numpy as jnp

from .base import AbstractDirectionNorm, TerminalLaw, forever, plus, unit


class SqrtScaling(AbstractDirectionNorm):
    """Post-LN with outputs scaled down with depth, `theta' = P A / sqrt(t+1)` (FORMULAS §7).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.SqrtScaling())
        Transformer(Softmax(beta=2.0), norm=SqrtScaling())
    """

    kind: ClassVar[str] = "sqrt"
    title: ClassVar[str] = "sqrt-scaling"
    slowness: ClassVar[str] = "s = sqrt(t+1)"
    radial: ClassVar[bool] = False

    def speed(self, t, r, inner, length):
        return 1 / jnp.sqrt(t + 1)

    def growth(self, t, r, inner, length):
        return jnp.zeros_like(r)

    def radius(self, d):
        return jnp.ones(())

    def inputs(self, t, x):
        return x

    def segments(self):
        return forever(self)

    def check(self, d):
        pass

    def layer(self, t, x, sublayer, h):
        return unit(plus(x, h * sublayer(x) / jnp.sqrt(t + 1)))

    def terminal_law(self, scale):
        return TerminalLaw(f"exp(-{4 * scale:.6g} sqrt(t))", "stretched", 4 * scale)

    def random_weight_law(self, step):
        return TerminalLaw(f"l^-{step:g}", "power", step)
