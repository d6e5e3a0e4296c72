"""Rescaled tokens: a change of variables rather than a norm."""

from typing import ClassVar

from ..spaces import Euclidean
from .base import AbstractNorm, forever


class Rescaled(AbstractNorm):
    """The free flow in the variables `z = e^{-tV} x`, in which clusters converge (FORMULAS §2, §3).

    `z_i' = V (sum_j P_ij z_j - z_i)` with the attention matrix P at `e^{tV} z`. With V(t), `z = Phi^{-1} x` where
    `Phi' = V Phi`. With several heads `V = sum_h W_h V_h`. This is a change of variables, not a norm; `x` itself, which may
    overflow, is computed only for an MLP.

    States of a trajectory hold z. Along eigenvalues lambda < 0 of V, z grows like `e^{|lambda| t}`, and its components along
    the others are soon lost to rounding. The dataset therefore also has `scaled` and `log_scale`, with `x = e^log_scale scaled`;
    the level of a leading left eigenvector u is `<u, scaled>`. If rounding hides z, the run ends with an event "resolution".

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.Rescaled())
        Transformer(Softmax(beta=1.0), norm=Rescaled())
    """

    kind: ClassVar[str] = "rescaled"
    title: ClassVar[str] = "rescaled tokens"

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
        raise ValueError("Rescaled holds z = e^(-tV) x, and sublayers read x: use NoNorm(), and tokens x")

    def layer(self, t, x, sublayer, h):
        raise ValueError("Rescaled is a change of variables of the continuous flow: run layers with NoNorm()")
