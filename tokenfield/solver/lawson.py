"""Lawson steps for stiff diffusion: the decay of each mode is exact, and Tsit5 integrates the rest."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .stages import AbstractStages, Step, at_rest

TABLEAU = diffrax.Tsit5.tableau
C = np.concatenate([[0.0], np.asarray(TABLEAU.c, float)])
A = np.zeros((7, 7))
for row, values in enumerate(TABLEAU.a_lower):
    A[row + 1, : len(values)] = np.asarray(values, float)
ERROR = np.asarray(TABLEAU.b_error, float)


class Lawson(AbstractStages):
    """Steps of `y' = drift(t, y) - decay y`, with a diagonal decay, by Tsit5 applied to `e^{decay (t-t0)} y` (Lawson 1967).

    The decay puts no limit on the step size. Without decay the step is Tsit5's. The flow must have `drift` and `decay`.
    """

    @property
    def name(self):
        return "lawson"

    @property
    def keeps_slope(self):
        return False

    def take(self, flow, field, t0, t1, y0, slope):
        h, decay, (c, a) = t1 - t0, flow.decay, (jnp.asarray(C), jnp.asarray(A))
        axes = (7,) + (1,) * y0.ndim

        def stage(i, carry):
            k, _ = carry
            lag = jnp.maximum(c[i] - c, 0.0).reshape(axes)
            past = (a[i].reshape(axes) * jnp.exp(-lag * h * decay) * k).sum(0)
            y = jnp.exp(-c[i] * h * decay) * y0 + h * past
            return k.at[i].set(eqx.filter_checkpoint(flow.drift)(t0 + c[i] * h, y)), y

        k, y1 = jax.lax.fori_loop(0, 7, stage, (jnp.zeros((7, *y0.shape)), y0))
        left = jnp.asarray(ERROR).reshape(axes) * jnp.exp(-(1 - c).reshape(axes) * h * decay)
        return Step(y1, h * (left * k).sum(0), None, {"t0": t0, "t1": t1, "y0": y0, "y1": y1})

    def none(self, y):
        return at_rest(y)

    def between(self, flow, field, dense, t):
        """Take a shorter step: a polynomial in time does not resolve modes that decay within the step."""
        return self.take(flow, field, dense["t0"], t, dense["y0"], None).y1
