"""Rescaled tokens: a change of variables rather than a norm."""

from .base import AbstractNorm


class Rescaled(AbstractNorm):
    """The free flow seen in the variables `z = e^{-tV} x`, where clusters have limits (FORMULAS §2, §3).

    `z_i' = V (sum_j P_ij z_j - z_i)` with the attention matrix P at `e^{tV} z`. With V(t), `z = Phi^{-1} x` where
    `Phi' = V Phi`. It is a change of variables, not a norm; `x` itself is never formed, as it overflows. It needs
    one head. States of a trajectory hold z.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.Rescaled())
    """

    def layer(self, t, x, sublayer, h):
        raise ValueError("Rescaled is a change of variables of the continuous flow: run layers with NoNorm()")
