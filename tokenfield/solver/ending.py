"""Find out why a step failed: a blow-up, a token that reaches length 0, loss of precision, or NaN from the model."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ..flows import AbstractFlow
from .base import FAILED, UNDERFLOW, UNRESOLVED, VANISHED, AbstractMethod, Carry
from .runge_kutta import SMALLEST_CHANGE, SMALLEST_STEP, RungeKutta

STRAIGHT = (
    0.1  # radians; with a fixed step, a token whose direction rotates by more than this on its way to 0 may miss 0
)


def classified(flow: AbstractFlow, method: AbstractMethod, carry: Carry) -> Carry:
    """Return the carry; if a Runge–Kutta step has failed, set its status and time to those of the cause."""
    if not isinstance(method, RungeKutta):
        return carry
    t, y = jax.lax.stop_gradient((carry.t, carry.y))
    reason, time = jax.lax.stop_gradient(cause(flow, method, t, y))
    failed = carry.status == UNDERFLOW
    status = jnp.where(failed, reason, carry.status).astype(int)
    t = carry.t + jnp.where(failed, time - t, 0.0)
    return eqx.tree_at(lambda c: (c.t, c.status), carry, (t, status))


def cause(flow: AbstractFlow, method: RungeKutta, t: Array, y: object) -> tuple[Int[Array, ""], Array]:
    """Return the `(status, time)` of a run whose step failed at time t.

    VANISHED: a token reaches length 0 within about one step. UNDERFLOW: the velocity grows without bound.
    UNRESOLVED: double precision no longer determines the solution. FAILED: the right-hand side is NaN for another reason.
    """
    velocity = flow.velocity(t, y)
    left, angle = flow.limits.vanishing(y, velocity)
    smallest = jax.tree.map(lambda leaf: leaf * SMALLEST_STEP * t, velocity)
    change = flow.change_size(smallest, y, y)
    if method.dt is None:
        vanished = left <= SMALLEST_STEP / SMALLEST_CHANGE * jnp.maximum(t, SMALLEST_STEP)
        time = t
    else:
        vanished = (left <= 2 * method.dt) & (angle < STRAIGHT)
        time = jnp.where(vanished, t + left, t)
    grows = change >= SMALLEST_CHANGE
    if method.dt is not None:
        grows &= left > 2 * method.dt  # a fixed step may be too long near 0
    status = jnp.where(
        flow.limits.hidden(y), UNRESOLVED, jnp.where(vanished, VANISHED, jnp.where(grows, UNDERFLOW, FAILED))
    )
    return status, time
