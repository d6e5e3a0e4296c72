"""Sinkhorn attention: doubly stochastic."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._check import count, positive
from .._types import Beta, Map, Values
from .base import AbstractHead
from .parameters import Bilinear, ValueMap

MOST_TOKENS = 4096  # the coupling is an n x n matrix


class Sinkhorn(AbstractHead):
    """Sinkhorn attention: `k mu mu` is the coupling of mu with itself made from `e^{<Ax,y>}` by scaling rows and
    columns (FORMULAS §1; Sander et al. 2022).

    The scalings are computed in the log domain by OTT-JAX until the marginals are right to `tolerance` (in L1);
    rows then sum to 1 to rounding. If that takes more than `max_iterations` the result is NaN, which a solver
    treats as a failed step.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Sinkhorn(beta=2.0, tolerance=1e-10)
    """

    score: Bilinear
    value: ValueMap
    causal: bool = eqx.field(static=True)
    symmetric: bool = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    stochastic: ClassVar[bool] = True

    def __init__(
        self,
        beta: Beta = None,
        *,
        A: Map = None,
        Q: Map = None,
        K: Map = None,
        V: Values = None,
        causal: bool = False,
        tolerance: float = 1e-10,
        max_iterations: int = 20_000,
    ):
        if causal:
            raise ValueError("Sinkhorn cannot be causal: a triangular doubly stochastic matrix is the identity")
        self.score = Bilinear(beta, A, Q, K)
        self.value = ValueMap(V)
        self.causal = False
        self.symmetric = self.score.symmetric()
        self.tolerance = positive("tolerance", tolerance)
        self.max_iterations = count("max_iterations", max_iterations)

    def average(self, t, x, w, positions, values, unit=False):
        from ott.geometry.geometry import Geometry
        from ott.problems.linear.linear_problem import LinearProblem
        from ott.solvers.linear.acceleration import Momentum
        from ott.solvers.linear.sinkhorn import Sinkhorn as Solver

        if x.shape[0] > MOST_TOKENS:
            raise ValueError(f"Sinkhorn holds an n x n matrix and takes at most {MOST_TOKENS} tokens, got {x.shape[0]}")
        q, k, _ = self.score.factors(t, x)
        s = q @ k.T
        # Symmetric scores have equal row and column potentials: update both at once, averaged.
        solver = Solver(
            threshold=self.tolerance,
            max_iterations=self.max_iterations,
            lse_mode=True,
            parallel_dual_updates=self.symmetric,
            momentum=Momentum(value=0.5 if self.symmetric else 1.0),  # type: ignore[call-arg]
        )
        out = solver(LinearProblem(Geometry(cost_matrix=-s, epsilon=1.0), a=w, b=w))
        p = jax.nn.softmax(s + out.g[None, :], axis=-1)
        return jnp.where(jnp.asarray(out.converged), p @ values, jnp.nan)
