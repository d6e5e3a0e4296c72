"""Tokens of equal length with equal angles between any two of them."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, count, has_values, is_concrete
from .._shown import shown
from .._types import Number
from .base import AbstractState
from .samplers import equiangular_tokens
from .tokens import Tokens

TOLERANCE = 1e-12


class Equiangular(AbstractState):
    """n tokens of length `radius` with all pairwise cosines equal to rho, in any dimension >= n (FORMULAS §7).

    Isotropic attention keeps such tokens equiangular, so two numbers represent all of them. Tokens that are
    independent and uniform in high dimension are nearly equiangular with rho = 0.

    Args:
        rho: the cosine, in [-1/(n-1), 1].
        n: number of tokens, at least 2.
        radius: length of every token; 1 on the unit sphere, the radius r of Pre-LN and Peri-LN.
        gap: `1 - rho`, stored separately because it is more accurate than rho when tokens have nearly merged; set from
            rho by default.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Equiangular(rho=0.0, n=32)
        Equiangular(rho=0.0, n=32)
    """

    rho: Float[Array, "*batch"]
    radius: Float[Array, "*batch"]
    gap: Float[Array, "*batch"]
    n: int = eqx.field(static=True)
    kind: ClassVar[str] = "equiangular"
    title: ClassVar[str] = "tokens at equal angles"

    def __init__(self, rho: Number, n: int, radius: Number = 1.0, gap: Number | None = None):
        self.n = count("n", n, 2)
        self.rho = as_float("rho", rho, 0).astype(jnp.float64)
        self.radius = as_float("radius", radius, 0).astype(jnp.float64)
        self.gap = 1 - self.rho if gap is None else as_float("gap", gap, 0).astype(jnp.float64)
        if is_concrete(self.rho, self.radius, self.gap):
            least = -1 / (self.n - 1)
            if not least - TOLERANCE <= float(self.rho) <= 1:
                raise ValueError(
                    f"rho must lie in [-1/(n-1), 1] = [{least:.6g}, 1] for n = {self.n}, got {shown(float(self.rho))}"
                )
            if not float(self.radius) > 0:
                raise ValueError(f"radius must be > 0, got {shown(float(self.radius))}")
            if abs(float(self.gap) - (1 - float(self.rho))) > TOLERANCE:
                raise ValueError(f"gap must be 1 - rho = {shown(1 - float(self.rho))}, got {shown(float(self.gap))}")

    def arguments(self):
        derived = has_values(self.rho, self.gap) and np.array_equal(np.asarray(self.gap), 1 - np.asarray(self.rho))
        return super().arguments() | {"gap": None if derived else self.gap}

    @property
    def batch_shape(self):
        return self.rho.shape

    def tokens(self, d: int | None = None) -> Tokens:
        """Return tokens at these angles in R^d, d >= n (d = n by default)."""
        return equiangular_tokens(float(self.rho), self.n, d, float(self.radius))
