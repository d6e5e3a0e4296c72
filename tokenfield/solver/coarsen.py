"""Runs of metastable clusters in rescaled time: Runge–Kutta with a known first step."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ..flows.coarse import CoarseFlow
from .base import FAILED, AbstractMethod
from .runge_kutta import RungeKutta

FRACTION = 0.2
NO_PURE_RUN = (
    "method 'coarsen' merges tokens, which has no derivative and no fixed shape: use simulate(..., method='coarsen')"
)


class Coarsen(AbstractMethod):
    """A Runge–Kutta method for `CoarseFlow`, whose first step size is known.

    The first step is a fraction of the rescaled time s in which the time to the next merge changes by a factor e. Step sizes
    converge to this value, no matter how much time has passed before.
    """

    steps: RungeKutta
    interpolates: ClassVar[bool] = True
    random: ClassVar[bool] = False
    discrete: ClassVar[bool] = False

    @property
    def name(self):
        return "coarsen"

    def recorded(self, t1, rtol, atol, max_steps):
        return self.steps.recorded(t1, rtol, atol, max_steps)

    @property
    def fixed_step(self):
        return None

    def check(self, flow, t1, save_at):
        if not isinstance(flow, CoarseFlow):
            raise ValueError(NO_PURE_RUN)

    def for_derivatives(self):
        return self

    @property
    def continuous(self):
        return self.steps.continuous

    def init(self, flow, settings, t, y):
        carry = self.steps.init(flow, settings, t, y)
        _, forces = flow.forces(y.x)
        _, slope = jax.jvp(lambda x: flow.forces(x)[0], (y.x,), (forces,))
        return eqx.tree_at(lambda c: c.t_next, carry, t + FRACTION / (1 + jnp.abs(slope)))

    def step(self, flow, settings, carry):
        return self.steps.step(flow, settings, carry)

    def no_step(self, y):
        return self.steps.no_step(y)

    def at(self, flow, dense, t):
        return self.steps.at(flow, dense, t)

    def why_failed(self, flow, t, y):
        return jnp.array(FAILED), t  # clusters stay on the sphere, where velocities are bounded

    def fault(self, flow, t, y):
        return f"no step succeeds at log t = {float(flow.log_time(y)):.6g}, where a force is NaN or infinite"
