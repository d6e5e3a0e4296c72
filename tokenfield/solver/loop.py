"""The time loop: step until a given time, a stop, or the end of the run."""

from collections.abc import Callable
from typing import Any

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..flows import AbstractFlow
from .base import HIT, RUNNING, STOPPED, AbstractMethod, Carry, Settings, choose
from .stop import OnFlow
from .while_loop import while_loop

HALVINGS = 50  # bisections of the step in which a run stops: its time is exact to rounding


def attempt(
    flow: AbstractFlow, method: AbstractMethod, settings: Settings, stop: OnFlow | None, carry: Carry
) -> tuple[Carry, Any]:
    """Take one trial step. If the stop rule holds at its end, the status is HIT, and `locate` then finds the time."""
    new, dense = method.step(flow, settings, carry)
    if stop is None:
        return new, dense
    hit = (new.t > carry.t) & stop(new.t, new.y, flow)
    status = jnp.where(hit, HIT, new.status).astype(int)
    return Carry(new.t, new.t_next, new.y, new.memory, status, new.steps, new.rejected), dense


def locate(
    flow: AbstractFlow, method: AbstractMethod, stop: OnFlow, carry: Carry, dense: Any, differentiated: bool
) -> Carry:
    """Cut the last step at the first time at which the stop rule holds, by bisection on the interpolant.

    Derivatives follow from the implicit function theorem: bisection finds the time t at which the margin g of the rule is 0,
    and `t - g(t, y(t)) / g'` has the same value as t and the derivative of the stopping time. `differentiated=False` skips this.
    """
    if not method.interpolates:
        return _stopped(carry, carry.t, carry.y)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        hit = stop(middle, method.at(flow, dense, middle), flow)
        return jnp.where(hit, low, middle), jnp.where(hit, middle, high)

    begin, end = jax.lax.stop_gradient((dense["t0"], carry.t))
    t = jax.lax.stop_gradient(jax.lax.fori_loop(0, HALVINGS, halve, (begin, end))[1])
    at_end = t >= end  # use the state at the end of the step, not the interpolant
    y = choose(at_end, carry.y, method.at(flow, dense, t))
    if not differentiated:
        return _stopped(carry, t, y)
    if not stop.differentiable:
        refused = "stop_when has no derivative here: give a function of the state that returns a real number, >= 0 at the stop"
        return _stopped(carry, *eqxi.nondifferentiable((t, y), msg=refused))
    along = lambda t: stop.margin(t, method.at(flow, dense, t), flow)  # noqa: E731
    rate = jax.lax.stop_gradient(jax.jvp(along, (t,), (jnp.ones_like(t),))[1])
    margin = stop.margin(t, y, flow)
    # Under vmap this runs for members that did not stop too, whose rate may be 0.
    rate = jnp.where(carry.status == HIT, jnp.where(rate == 0, jnp.nan, rate), 1.0)
    shift = -(margin - jax.lax.stop_gradient(margin)) / rate
    velocity = jax.lax.stop_gradient(flow.velocity(t, y))
    return _stopped(carry, t + shift, jax.tree.map(lambda y, v: y + shift * v, y, velocity))


def _stopped(carry: Carry, t: Array, y: Any) -> Carry:
    return Carry(t, t, y, carry.memory, jnp.full_like(carry.status, STOPPED), carry.steps, carry.rejected)


def advance(
    flow: AbstractFlow,
    method: AbstractMethod,
    settings: Settings,
    stop: OnFlow | None,
    carry: Carry,
    dense: Any,
    target: Array,
    last_step: Array,
    max_steps: int,
    adjoint: Any,
    differentiated: bool = True,
) -> tuple[Carry, Any]:
    """Step until the time `target`, the end of the run, or trial step number `last_step`."""

    def going(state):
        c = state[0]
        return (c.status == RUNNING) & (c.t < target) & (c.steps + c.rejected < last_step)

    step: Callable = lambda state: attempt(flow, method, settings, stop, state[0])  # noqa: E731
    carry, dense = while_loop(going, step, (carry, dense), max_steps, adjoint)
    if stop is None:
        return carry, dense
    hit = carry.status == HIT
    found = lambda c: choose(hit, locate(flow, method, stop, c, dense, differentiated), c)  # noqa: E731
    return jax.lax.cond(eqxi.unvmap_any(hit), found, lambda c: c, carry), dense


def empty_dense(flow: AbstractFlow, method: AbstractMethod, settings: Settings, carry: Carry) -> Any:
    """Return a placeholder for the `dense` output of `method.step`, to start a loop: zeros, for a step of size 1."""
    shapes = jax.eval_shape(lambda c: method.step(flow, settings, c)[1], carry)
    dense = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return dense | {"t1": jnp.ones(())} if method.interpolates else dense
