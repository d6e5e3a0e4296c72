"""ReLU attention."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._check import number
from .._types import Beta, Map, Values
from .base import AbstractPairwise
from .positions import Positions


class ReLU(AbstractPairwise):
    """ReLU attention, `k(x, y) = max(0, <Ax, y>)^p`, normalized or not (FORMULAS §1).

    Without a norm it can blow up in finite time, unless it is normalized.

    Args:
        power: p >= 1; 2 is squared ReLU.
        normalized: divide by `∫ max(0, <Ax, y'>)^p dmu(y')`. Where this is 0, `Gamma(x) = 0`. Gamma is discontinuous there,
            because nearby it is an average of tokens.
        beta, A, Q, K, V, causal, positions: as for `Softmax`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.ReLU(beta=1.0), tkf.ReLU(beta=1.0, power=2, normalized=True)
        (ReLU(beta=1.0), ReLU(beta=1.0, power=2, normalized=True))
    """

    kind: ClassVar[str] = "relu"
    title: ClassVar[str] = "ReLU attention"
    power: float = eqx.field(static=True)

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
        power: float = 1,
        normalized: bool = False,
    ):
        super().__init__(beta, A=A, Q=Q, K=K, V=V, causal=causal, positions=positions, normalized=normalized)
        power = number("power", power)
        if power < 1:
            raise ValueError(f"power must be a number >= 1, got {power:g}")
        self.power = int(power) if power.is_integer() else power  # whole powers are products

    def phi(self, s):
        return jnp.maximum(s, 0) ** self.power
