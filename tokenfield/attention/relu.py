"""ReLU attention."""

from typing import ClassVar

import jax.numpy as jnp

from .._types import Beta, Map, Values
from .base import AbstractPairwise
from .positions import Positions


class ReLU(AbstractPairwise):
    """ReLU attention, `k(x, y) = max(0, <Ax, y>)` (FORMULAS §1). Without a norm it can blow up in finite time.

    Args:
        beta, A, Q, K, V, causal, positions: as for `Softmax`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.ReLU(beta=1.0)
    """

    kind: ClassVar[str] = "relu"
    title: ClassVar[str] = "ReLU attention"
    stochastic: ClassVar[bool] = False

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
        return jnp.maximum(s, 0)
