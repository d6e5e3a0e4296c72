"""Steps for stiff diffusion: exact decay of each mode, and Tsitouras' Runge–Kutta method for the rest."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

TABLEAU = diffrax.Tsit5.tableau
C = np.concatenate([[0.0], np.asarray(TABLEAU.c, float)])
A = np.zeros((7, 7))
for row, values in enumerate(TABLEAU.a_lower):
    A[row + 1, : len(values)] = np.asarray(values, float)
ERROR = np.asarray(TABLEAU.b_error, float)


class Lawson(eqx.Module):
    """`y' = drift(t, y) - decay y` with a diagonal decay (Lawson 1967): Tsit5 for `e^{decay (t-t0)} y`.

    No step is too long for the decay, whatever its size; without decay it is Tsit5. A flow that is run by it offers
    `drift` and `decay`.
    """

    interpolation_cls: ClassVar[Any] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def init(self, terms, t0, t1, y0, args):
        """Nothing is carried from step to step."""
        return None

    def step(self, terms, t0, t1, y0, args, state, made_jump):
        """One step: `(y1, error, dense, state, result)`, as Diffrax's solvers give it."""
        flow, h = args[0], t1 - t0
        decay, (c, a) = flow.decay, (jnp.asarray(C), jnp.asarray(A))
        axes = (7,) + (1,) * y0.ndim

        def stage(i, carry):
            k, _ = carry
            lag = jnp.maximum(c[i] - c, 0.0).reshape(axes)
            past = (a[i].reshape(axes) * jnp.exp(-lag * h * decay) * k).sum(0)
            y = jnp.exp(-c[i] * h * decay) * y0 + h * past
            return k.at[i].set(flow.drift(t0 + c[i] * h, y)), y

        k, y1 = jax.lax.fori_loop(0, 7, stage, (jnp.zeros((7, *y0.shape)), y0))
        left = jnp.asarray(ERROR).reshape(axes) * jnp.exp(-(1 - c).reshape(axes) * h * decay)
        slopes = h * jnp.stack([k[0] - decay * y0, k[6] - decay * y1])
        return y1, h * (left * k).sum(0), {"y0": y0, "y1": y1, "k": slopes}, state, None
