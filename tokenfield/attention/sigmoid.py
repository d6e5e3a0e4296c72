"""Sigmoid attention."""

from typing import ClassVar

import jax

from .._types import Beta, Map, Values
from .base import AbstractPairwise
from .positions import Positions


class Sigmoid(AbstractPairwise):
    """Sigmoid attention, `k(x, y) = 1 / (1 + e^{-<Ax,y>})`, normalized or not (FORMULAS §1).

    Since `k <= 1`, a probability measure supported in the ball of radius R has `|Gamma| <= |V| R`: there is no blow-up.

    Args:
        normalized: divide by `∫ 1 / (1 + e^{-<Ax,y'>}) dmu(y')`.
        beta, A, Q, K, V, causal, positions: as for `Softmax`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Sigmoid(beta=1.0), tkf.Sigmoid(beta=1.0, normalized=True)
        (Sigmoid(beta=1.0), Sigmoid(beta=1.0, normalized=True))
    """

    kind: ClassVar[str] = "sigmoid"
    title: ClassVar[str] = "sigmoid attention"

    def __init__(
        self,
        beta: Beta = None,
        *,
        A: Map = None,
        Q: Map = None,
        K: Map = None,
        V: Values = None,
        causal: bool = False,
        positions: Positions = None,
        normalized: bool = False,
    ):
        super().__init__(beta, A=A, Q=Q, K=K, V=V, causal=causal, positions=positions, normalized=normalized)

    def phi(self, s):
        return jax.nn.sigmoid(s)
