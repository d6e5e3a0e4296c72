"""Pre-LN: normalize the input of the sublayer."""

from typing import ClassVar

from .._types import Number, Vector
from .base import AbstractGainNorm, Gain, TerminalLaw, forever, plus, unit


class PreLN(AbstractGainNorm):
    """Pre-layer normalization, `x <- x + h A(N x)`: `theta' = P A / r`, `r' = <theta, A>` (FORMULAS §7).

    A token's length is its radius r. With a gain g, sublayers read `g ⊙ theta sqrt(d)`.

    Args:
        gain: a number or (d,) numbers g; None for the idealized norm, of length 1 instead of sqrt(d).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PreLN())
        Transformer(Softmax(beta=2.0), norm=PreLN())
    """

    gain: Gain
    kind: ClassVar[str] = "pre"
    title: ClassVar[str] = "Pre-LN"
    slowness: ClassVar[str] = "s = r"
    radial: ClassVar[bool] = True

    def __init__(self, gain: Number | Vector | None = None):
        self.gain = Gain(gain)

    def speed(self, t, r, inner, length):
        return 1 / r

    def growth(self, t, r, inner, length):
        return inner

    def radius(self, d):
        return None

    def inputs(self, t, x):
        return self.reads(unit(x))

    def segments(self):
        return forever(self)

    def layer(self, t, x, sublayer, h):
        return plus(x, h * sublayer(self.reads(unit(x))))

    def terminal_law(self, scale):
        return TerminalLaw("t^-2", "power", 2.0)

    def random_weight_law(self, step):
        return TerminalLaw("l^-1", "power", 1.0)
