"""L2 attention."""

from typing import ClassVar

import jax.numpy as jnp

from .._check import flag
from .._types import Beta, Map, Values
from .base import AbstractPairwise
from .parameters import SquaredDistance, ValueMap
from .positions import Positions, as_rules


class L2(AbstractPairwise):
    """L2 attention, `k(x, y) = e^{-beta|Qx-Ky|^2} / ∫ e^{-beta|Qx-Ky'|^2} dmu(y')` (FORMULAS §1; Kim et al. 2021).

    Q and K default to the identity and beta to 1. On the unit sphere `L2(beta=b)` is `Softmax(beta=2 b)`.

    Args:
        beta, Q, K, V, causal, positions: as for `Softmax`; there is no A.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.L2(Q=[[1.0, 0.0]], K=[[0.0, 1.0]])
        L2(beta=1.0, Q=[[1.0, 0.0]], K=[[0.0, 1.0]])
    """

    kind: ClassVar[str] = "l2"
    title: ClassVar[str] = "L2 attention"
    exponential: ClassVar[bool] = True

    def __init__(
        self,
        beta: Beta = None,
        *,
        Q: Map = None,
        K: Map = None,
        V: Values = None,
        causal: bool = False,
        positions: Positions = None,
    ):
        self.score = SquaredDistance(beta, Q, K)
        self.value = ValueMap(V)
        self.causal = flag("causal", causal)
        self.positions = as_rules(positions)
        self.normalized = True

    def phi(self, s):
        return jnp.exp(s)
