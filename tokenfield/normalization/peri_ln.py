"""Peri-LN: normalize the input and the output of the sublayer."""

from typing import ClassVar

from .._types import Number, Vector
from .base import AbstractGainNorm, Gain, TerminalLaw, forever, inverse, plus, unit


class PeriLN(AbstractGainNorm):
    """Peri-layer normalization, `x <- x + h N(A(N x))` (FORMULAS §7; Kim et al., arXiv 2502.02732).

    `theta' = P A / (r |A|)`, `r' = <theta, A> / |A|`. A token's length is its radius r. With a gain g, sublayers
    read `g ⊙ theta sqrt(d)`. Each sublayer's output is normalized separately.

    Args:
        gain: a number or (d,) numbers g; None for the idealized norm, of length 1 instead of sqrt(d).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=2.0), norm=tkf.PeriLN())
        Transformer(Softmax(beta=2.0), norm=PeriLN())
    """

    gain: Gain
    kind: ClassVar[str] = "peri"
    title: ClassVar[str] = "Peri-LN"
    slowness: ClassVar[str] = "s = r|A|"
    radial: ClassVar[bool] = True
    scale_free: ClassVar[bool] = True

    def __init__(self, gain: Number | Vector | None = None):
        self.gain = Gain(gain)

    def speed(self, t, r, inner, length):
        return inverse(length) / r

    def growth(self, t, r, inner, length):
        return inner * inverse(length)

    def radius(self, d):
        return None

    def inputs(self, t, x):
        return self.reads(unit(x))

    def segments(self):
        return forever(self)

    def layer(self, t, x, sublayer, h):
        return plus(x, h * unit(sublayer(self.reads(unit(x)))))

    def terminal_law(self, scale):
        return TerminalLaw("t^-2", "power", 2.0)

    def random_weight_law(self, step):
        return TerminalLaw("l^-1", "power", 1.0)
