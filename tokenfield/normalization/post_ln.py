"""Post-LN: normalize after adding."""

import math
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from .._check import is_concrete
from .._types import Number, Vector
from .base import AbstractGainNorm, Gain, TerminalLaw, forever, plus, unit


class PostLN(AbstractGainNorm):
    """Post-layer normalization, `x <- N(x + h A(x))`: tokens on the unit sphere, `theta' = P A` (FORMULAS §2, §7).

    With a gain g the norm is `x -> g ⊙ (x/|x|) sqrt(d)`. If all entries of g are equal, tokens live on the sphere
    of radius `R = g sqrt(d)`, and the flow is `x' = P A(x)`. If they differ, the layer with h = 0 is not the
    identity: there is no flow, and only `layers` supports it.

    Args:
        gain: a number or (d,) numbers g; None for the idealized norm, of length 1 instead of sqrt(d).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.PostLN(), tkf.PostLN(gain=[1.0, 0.5, 2.0])
        (PostLN(), PostLN(gain=[1.0, 0.5, 2.0]))
    """

    gain: Gain
    kind: ClassVar[str] = "post"
    title: ClassVar[str] = "Post-LN"
    slowness: ClassVar[str] = "s = 1"
    radial: ClassVar[bool] = False

    def __init__(self, gain: Number | Vector | None = None):
        self.gain = Gain(gain)

    def speed(self, t, r, inner, length):
        return 1 / r

    def growth(self, t, r, inner, length):
        return jnp.zeros_like(r)

    def layer(self, t, x, sublayer, h):
        return self.gain(unit(plus(x, h * sublayer(x))))

    def radius(self, d):
        if self.gain.g is None:
            return np.ones(())
        return jnp.linalg.norm(self.gain(jnp.ones((1, d)) / d**0.5)) if self.gain.uniform else None

    def inputs(self, t, x):
        return x

    def segments(self):
        g = self.gain.g
        if g is not None and not is_concrete(g) and g.ndim == 1:
            raise ValueError(
                "gain must be a number inside jit, vmap or grad under PostLN: only equal entries have a continuous flow, which "
                "cannot be seen there"
            )
        if not self.gain.uniform or (g is not None and is_concrete(g) and (np.asarray(g) < 0).any()):
            raise ValueError(
                "gain with unequal or negative entries has no continuous flow under PostLN (the layer with h = 0 is not the "
                "identity): use layers(...), or PreLN(gain=...)"
            )
        return forever(self)

    def terminal_law(self, scale):
        return TerminalLaw(f"exp(-{2 * scale:.6g} t)", "exponential", 2 * scale)

    def random_weight_law(self, step):
        rate = math.log1p(step**2)
        return TerminalLaw(f"exp(-{rate:.6g} l)", "exponential", rate)
