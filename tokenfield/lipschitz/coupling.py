"""The derivative of Sinkhorn attention, from that of the coupling by the implicit function theorem.

`k_ij = e^{s_ij + f_i + g_j}` with `sum_j w_j k_ij = 1` and `sum_i w_i k_ij = 1`. When the scores change by ds, the
potentials change so that the marginals are preserved: with `P_ij = k_ij w_j` and `R_ji = w_i k_ij`, both with row sums 1,

`df + P dg = -(P ∘ ds) 1`,  `R df + dg = -(R ∘ ds^T) 1`,  so  `(I - R P) dg = R (P ∘ ds) 1 - (R ∘ ds^T) 1`,

which determines dg up to a constant that cancels with df. Then `d m_i = sum_j P_ij (dv_j + (ds_ij + df_i + dg_j) v_j)`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import Measure, Sinkhorn
from ..attention.parameters import ValueMap
from .derivative import AbstractDerivative


class CouplingDerivative(AbstractDerivative):
    """The derivative of Sinkhorn attention (then W) at weighted tokens. Built by `coupling_derivative`."""

    head: Sinkhorn
    output: ValueMap
    t: Float[Array, ""]
    x: Float[Array, "n d"]
    w: Float[Array, " n"]
    P: Float[Array, "n n"]
    factors: tuple[Array, Array]

    def apply(self, e):
        x, w, P = self.x, self.w, self.P
        R = (w[:, None] * P / w).T
        y = x - w @ x  # constants in the rows and columns of ds cancel with df and dg
        q, k, _ = self.head.score.factors(self.t, y, y)
        dq, dk, _ = self.head.score.factors(self.t, e, e)  # linear in the tokens
        ds = dq @ k.T + q @ dk.T
        rows, columns = (P * ds).sum(1), (R * ds.T).sum(1)
        dg = jax.scipy.linalg.lu_solve(self.factors, R @ rows - columns)
        df = -rows - P @ dg
        m = P @ e + (P * (ds + df[:, None] + dg)) @ (x - w @ x)
        return self.output(self.t, self.head.value(self.t, m))

    def transpose(self, u):
        return jax.linear_transpose(self.apply, self.x)(u)[0]


@eqx.filter_jit
def coupling_derivative(
    head: Sinkhorn, output: ValueMap, t: Float[Array, ""], x: Array, w: Array, positions: Array
) -> CouplingDerivative:
    """Return the derivative, with the LU factors of `I - R P + 1 w^T`, which is nonsingular and selects `w^T dg = 0`."""
    n = len(x)
    P = head.average_of_itself(t, Measure(x, w, positions), jnp.eye(n))
    R = (w[:, None] * P / w).T
    factors = jax.scipy.linalg.lu_factor(jnp.eye(n) - R @ P + w)
    return CouplingDerivative(head, output, t, x, w, P, factors)
