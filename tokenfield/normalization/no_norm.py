"""No normalization: the free flow."""

from typing import ClassVar

from ..spaces import Euclidean
from .base import AbstractNorm, forever


class NoNorm(AbstractNorm):
    """The free flow in R^d, `x' = Gamma_mu(x)`; layer `x <- x + h A(x)` (FORMULAS §2).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.NoNorm())
        Transformer(Softmax(beta=1.0), norm=NoNorm())
    """

    kind: ClassVar[str] = "none"
    title: ClassVar[str] = "no norm"

    @property
    def space(self):
        return Euclidean()

    @property
    def isotropic(self):
        return True

    def segments(self):
        return forever(self)

    def check(self, d):
        pass

    def inputs(self, t, x):
        return x

    def layer(self, t, x, sublayer, h):
        return x + h * sublayer(x)
