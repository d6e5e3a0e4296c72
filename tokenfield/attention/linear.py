"""Linear attention."""

from typing import ClassVar

from .._types import Beta, Map, Values
from .base import AbstractPairwise
from .positions import Positions


class Linear(AbstractPairwise):
    """Linear attention, `k(x, y) = <Ax, y>`, so `Gamma_mu(x) = V M A x` with `M = ∫ y y^T dmu` (FORMULAS §1).

    Without a norm it can blow up in finite time.

    Args:
        beta, A, Q, K, V, causal, positions: as for `Softmax`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Linear(beta=1.0)
        Linear(beta=1.0)
    """

    kind: ClassVar[str] = "linear"
    title: ClassVar[str] = "linear attention"

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
    ):
        super().__init__(beta, A=A, Q=Q, K=K, V=V, causal=causal, positions=positions)

    def phi(self, s):
        return s
