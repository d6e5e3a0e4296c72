"""Unnormalized (exponential) attention."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from .._check import as_float
from .base import AbstractPairwise
from .exponential import exp

LARGE_BETA = 30.0


class Unnormalized(AbstractPairwise):
    """Unnormalized attention, `k(x, y) = e^{<Ax,y>}`: the drift of the USA flow (FORMULAS §1, §2).

    Speeds reach `e^beta`, so for beta > 30 the kernel is computed as `e^{<Ax,y> - log_unit}` with
    `log_unit = beta`: time then runs in units of `e^{-log_unit}`, which every result states. Pass
    `log_unit=0` for plain time at any beta, or another value for a unit of your own. Without a norm it can
    blow up in finite time.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Unnormalized(beta=1.0), tkf.Unnormalized(beta=1e4).log_unit
    """

    unit_exponent: Array
    stochastic: ClassVar[bool] = False

    def __init__(self, beta=None, *, A=None, Q=None, K=None, V=None, causal=False, log_unit=None):
        super().__init__(beta, A=A, Q=Q, K=K, V=V, causal=causal)
        if log_unit is not None:
            self.unit_exponent = as_float("log_unit", log_unit, 0)
        elif self.score.isotropic and isinstance(self.score.beta, Array):
            self.unit_exponent = jnp.where(self.score.beta > LARGE_BETA, self.score.beta, 0.0)
        else:
            self.unit_exponent = jnp.zeros(())

    @property
    def log_unit(self):
        return self.unit_exponent

    def phi(self, s):
        return exp(s - self.unit_exponent.astype(s.dtype))
