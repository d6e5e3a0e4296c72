"""Unnormalized (exponential) attention."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, has_values, is_concrete
from .._types import Beta, Map, Number, Values
from .._xla.exponential import exp
from .base import AbstractPairwise
from .positions import Positions

LARGE_BETA = 30.0
ROWS = 512


class Unnormalized(AbstractPairwise):
    """Unnormalized attention, `k(x, y) = e^{<Ax,y>}`: the drift of the USA flow (FORMULAS §1, §2).

    Speeds reach `e^beta`, so for beta > 30 the kernel is computed as `e^{<Ax,y> - log_unit}` with
    `log_unit = beta`. The unit of time is then `e^{-log_unit}`, which every result records. Set
    `log_unit=0` for the original time unit at any beta, or choose another value. Without a norm, a run can
    blow up in finite time.

    Args:
        beta, A, Q, K, V, causal, positions: as for `Softmax`.
        log_unit: logarithm of the unit in which the kernel is computed; 0 for beta <= 30 and beta above by default.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Unnormalized(beta=1.0), tkf.Unnormalized(beta=1e4).log_unit
        (Unnormalized(beta=1.0), Array(10000., dtype=float64))
    """

    unit_exponent: Array  # type: ignore[misc]
    kind: ClassVar[str] = "unnormalized"
    title: ClassVar[str] = "unnormalized attention (USA)"
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
        log_unit: Number | None = None,
    ):
        super().__init__(beta, A=A, Q=Q, K=K, V=V, causal=causal, positions=positions)
        if log_unit is not None:
            self.unit_exponent = as_float("log_unit", log_unit, 0)
        else:
            self.unit_exponent = self._default_unit()

    def _default_unit(self) -> Array:
        if self.score.isotropic and isinstance(self.score.beta, Array):
            return jnp.where(self.score.beta > LARGE_BETA, self.score.beta, 0.0)
        return jnp.zeros(())

    def arguments(self):
        unit = self.unit_exponent
        derived = has_values(unit) and np.array_equal(np.asarray(unit), np.asarray(self._default_unit()))
        return super().arguments() | {"log_unit": None if derived else unit}

    def check_range(self, x: Float[Array, "n d"]) -> None:
        """Raise ValueError if the kernel of these tokens overflows at time 0, so that `log_unit` must be given."""
        if self.score.isotropic or not is_concrete(x, *jax.tree.leaves(self)):
            return
        with jax.ensure_compile_time_eval():  # inside jit too
            q, k = map(np.asarray, self.score.factors(jnp.zeros(()), x, x)[:2])
        most = float(self.unit_exponent) + np.log(np.finfo(float).max)
        if np.linalg.norm(q, axis=1).max() * np.linalg.norm(k, axis=1).max() <= most:
            return
        largest = max(float((q[row : row + ROWS] @ k.T).max()) for row in range(0, len(q), ROWS))
        if largest > most:
            raise ValueError(
                f"log_unit must be given: <Ax,y> reaches {largest:.0f}, and its exponential overflows. With "
                f"log_unit={largest:.0f}, the unit of time is e^-{largest:.0f}"
            )

    def phi(self, s):
        return exp(s - self.unit_exponent.astype(s.dtype))
