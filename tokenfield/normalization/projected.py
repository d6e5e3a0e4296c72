"""Tokens that stay in a space: the sublayer's output is projected onto the tangent space."""

from typing import ClassVar

from .._shown import shown
from ..spaces import AbstractSpace
from .base import AbstractNorm, forever


class Projected(AbstractNorm):
    """`x' = P_x A(x)` in any space, P_x the projection onto its tangent space at x; layer `x <- retract(x, h A(x))`.

    On the sphere this is `PostLN()`, and in R^d `NoNorm()`. It is usually written `Transformer(attention, space=Torus())`.

    Args:
        space: the space in which tokens stay.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.Projected(tkf.Hyperbolic()))
        Transformer(Softmax(beta=1.0), norm=Projected(Hyperbolic()))
    """

    stays_in: AbstractSpace
    kind: ClassVar[str] = "projected"
    title: ClassVar[str] = "projected"

    def __init__(self, space: AbstractSpace):
        if not isinstance(space, AbstractSpace):
            raise ValueError(f"space must be a space such as Torus(), got {shown(space)}")
        self.stays_in = space

    @property
    def space(self):
        return self.stays_in

    @property
    def isotropic(self):
        return False

    def segments(self):
        return forever(self)

    def check(self, d):
        self.space.check(d)

    def inputs(self, t, x):
        return x

    def layer(self, t, x, sublayer, h):
        return self.space.retract(x, h * sublayer(x))
