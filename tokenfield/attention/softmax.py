"""Softmax attention."""

from typing import ClassVar

import jax.numpy as jnp

from .._types import Beta, Map, Values, Vector
from .base import AbstractPairwise
from .positions import Positions


class Softmax(AbstractPairwise):
    """Softmax attention, `k(x, y) = e^{<Ax,y>} / ∫ e^{<Ax,y'>} dmu(y')` (FORMULAS §1; Vaswani et al. 2017).

    Args:
        beta: inverse temperature: shorthand for `A = beta I`; multiplies `K^T Q` when Q, K are given.
        A: (d, d) score matrix, an array or a function of time.
        Q, K: (k, d) query and key maps instead of A = K^T Q.
        V: value map: None for the identity, a number v for v I, a (d, d) matrix, or a function of time.
        causal: token i attends only to tokens j <= i (positions `tau <= s` when the state has positions).
        positions: rules by which scores depend on positions: `RoPE`, `ALiBi`, `Bias`, `Window`, `Sinks`, or a list of them.
        q, k: (k,) biases of queries and keys, `<Q x + q, K y + k>`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Softmax(beta=9.0), tkf.Softmax(A=[[0.0, 1.0], [-1.0, 0.0]], V=-1.0)
        (Softmax(beta=9.0), Softmax(A=[[0.0, 1.0], [-1.0, 0.0]], V=-1.0))
    """

    kind: ClassVar[str] = "softmax"
    title: ClassVar[str] = "softmax attention (SA)"
    exponential: ClassVar[bool] = True

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
        q: Vector | None = None,
        k: Vector | None = None,
    ):
        super().__init__(beta, A=A, Q=Q, K=K, V=V, causal=causal, positions=positions, q=q, k=k, normalized=True)

    def phi(self, s):
        return jnp.exp(s)
