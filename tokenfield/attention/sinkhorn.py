"""Sinkhorn attention, whose matrix is doubly stochastic."""

from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import count, flag, positive
from .._types import Beta, Map, Values
from .base import AbstractHead
from .measure import AtomicMeasure
from .parameters import Bilinear, Parameter, ValueMap, mean
from .positions import Positions, Rules, as_rules, biased, check_rules, rotated, rotates, visible

MOST_TOKENS = 4096  # the coupling is an n x n matrix


class Sinkhorn(AbstractHead):
    """Sinkhorn attention: `k mu mu` is the coupling of mu with itself obtained from `e^{<Ax,y>}` by scaling rows and
    columns (FORMULAS §1; Sander et al. 2022).

    The scalings are computed in the log domain by OTT-JAX until the marginals are accurate to `tolerance` (in L1);
    rows then sum to 1 to rounding. If that takes more than `max_iterations`, the result is NaN, which a solver
    treats as a failed step. This happens if a token sees another one from which no chain of visible tokens leads back, as
    with `Sinks` outside a narrow `Window`: a doubly stochastic matrix is 0 there.

    Args:
        beta, A, Q, K, V: as for `Softmax`.
        causal: must be False: a causal doubly stochastic matrix is the identity.
        tolerance: allowed error of the marginals, in L1.
        max_iterations: maximum number of scalings.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Sinkhorn(beta=2.0, tolerance=1e-10)
        Sinkhorn(beta=2.0)
    """

    score: Bilinear
    value: ValueMap
    causal: bool = eqx.field(static=True)
    positions: Rules  # type: ignore[misc]
    symmetric: bool = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    kind: ClassVar[str] = "sinkhorn"
    title: ClassVar[str] = "Sinkhorn attention"
    whole_matrix: ClassVar[bool] = True
    normalized: ClassVar[bool] = True  # type: ignore[misc]
    by_scores: ClassVar[bool] = True

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
        tolerance: float = 1e-10,
        max_iterations: int = 20_000,
    ):
        if flag("causal", causal):
            raise ValueError("Sinkhorn cannot be causal: a triangular doubly stochastic matrix is the identity")
        self.score = Bilinear(beta, A, Q, K)
        self.value = ValueMap(V)
        self.causal = False
        self.positions = as_rules(positions)
        self.symmetric = self.score.symmetric() and not self.positions
        self.tolerance = positive("tolerance", tolerance)
        self.max_iterations = count("max_iterations", max_iterations)

    @property
    def beta(self) -> Parameter:
        """The inverse temperature, a number or a function of time; None if the head has a matrix A instead."""
        return self.score.beta

    def average(self, t, x, mu, positions, values):
        """Use the key potential of the coupling of mu with itself, at any points x."""
        g = self._potential(self._scores(t, mu.x, mu, mu.positions), mu)
        return jax.nn.softmax(self._scores(t, x, mu, positions) + g, axis=-1) @ values

    def average_of_itself(self, t, mu, values, unit=False):
        s = self._scores(t, mu.x, mu, mu.positions)
        return jax.nn.softmax(s + self._potential(s, mu), axis=-1) @ values

    @property
    def selective(self):
        return True

    def _potential(self, s: Float[Array, "n n"], mu: AtomicMeasure) -> Float[Array, " n"]:
        return potential(s, mu.weights, self.symmetric, self.tolerance, self.max_iterations)

    def _scores(
        self, t: Float[Array, ""], x: Float[Array, "m d"], mu: AtomicMeasure, positions: Float[Array, " m"]
    ) -> Float[Array, "m n"]:
        """Return the scores of the points x with the tokens of mu; masked scores are -inf."""
        if max(len(x), len(mu.x)) > MOST_TOKENS:
            most = max(len(x), len(mu.x))
            raise ValueError(f"Sinkhorn holds an n x n matrix and takes at most {MOST_TOKENS} tokens, got {most}")
        check_rules(self.positions, len(x), len(mu.x))
        # Constants in rows and columns of the scores do not change the coupling. Relative to the mean, scores are more accurate.
        m = 0 if rotates(self.positions) else mean(mu.x, mu.weights)
        q, k, _ = self.score.factors(t, x - m, mu.x - m)
        q, k = rotated(self.positions, q, positions), rotated(self.positions, k, mu.positions)
        s = biased(self.positions, q @ k.T, positions, mu.positions, jnp.arange(len(x)))
        seen = visible(self.positions, False, positions, mu.positions)
        return s if seen is None else jnp.where(seen, s, -jnp.inf)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def potential(
    s: Float[Array, "n n"], w: Float[Array, " n"], symmetric: bool, tolerance: float, max_iterations: int
) -> Float[Array, " n"]:
    """Return g with `sum_i w_i p_ij = w_j` for `p_ij = e^{s_ij + g_j} / sum_k e^{s_ik + g_k}`; NaN if not found."""
    from ott.geometry.geometry import Geometry
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.acceleration import Momentum
    from ott.solvers.linear.sinkhorn import Sinkhorn as Solver

    # Symmetric scores have equal row and column potentials: update both at once, averaged.
    solver = Solver(
        threshold=tolerance,
        max_iterations=max_iterations,
        lse_mode=True,
        parallel_dual_updates=symmetric,
        momentum=Momentum(value=0.5 if symmetric else 1.0),  # type: ignore[call-arg]
    )
    out = solver(LinearProblem(Geometry(cost_matrix=-s, epsilon=1.0), a=w, b=w))
    return jnp.where(jnp.asarray(out.converged), out.g, jnp.nan)


@potential.defjvp
def _(symmetric, tolerance, max_iterations, primals, tangents):
    """The implicit function theorem: `(diag w - p^T diag(w) p) dg = dw - p^T dw - sum_i w_i p_ij (ds_ij - sum_k p_ik ds_ik)`.

    Scaled by `w^{-1/2}` on both sides the matrix is `I - r^T r`, `r_ij = w_i^{1/2} p_ij w_j^{-1/2}`, whose null vector is
    `w^{1/2}`: dg is unique up to a constant. Tokens of weight 0 have `g = -inf` and are left out. If a mask separates the
    tokens into groups that do not see each other, dg has a free constant in each group, and a diagonal of the size of
    rounding fixes it.
    """
    s, w = primals
    ds, dw = tangents
    g = potential(s, w, symmetric, tolerance, max_iterations)
    p = jax.nn.softmax(s + g, axis=-1)
    present = w > 0
    root = jnp.sqrt(jnp.where(present, w, 1))
    unit = jnp.where(present, root, 0)
    r = unit[:, None] * jnp.where(present, p / root, 0)
    pull = dw - dw @ p - w @ (p * (ds - (p * ds).sum(-1, keepdims=True)))
    diagonal = (1 + 16 * jnp.finfo(w.dtype).eps) * jnp.eye(len(w))
    solved = jnp.linalg.solve(diagonal - r.T @ r + jnp.outer(unit, unit), jnp.where(present, pull / root, 0))
    return g, jnp.where(present, solved / root, 0)
