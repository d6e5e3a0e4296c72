"""The time loop: step until a given time, a stop, or the end of the run."""

from collections.abc import Callable
from typing import Any

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .base import HIT, RUNNING, STOPPED, Carry, Problem, choose
from .while_loop import while_loop

HALVINGS = 50  # bisections of the step in which a run stops: its time is exact to rounding


def begin(problem: Problem, t: Array, y: Any, steps: Array, rejected: Array) -> Carry:
    """Return the carry at the start of a segment. The run has ended if the stop rule already holds."""
    carry = problem.method.init(problem.flow, problem.settings, t, y)
    status = carry.status
    if problem.stop is not None:
        status = jnp.where(problem.stop(carry.t, carry.y, problem.flow), STOPPED, status).astype(int)
    return Carry(carry.t, carry.t_next, carry.y, carry.memory, status, steps, rejected)


def attempt(problem: Problem, carry: Carry) -> tuple[Carry, Any]:
    """Take one trial step. If the stop rule holds at its end, the status is HIT, and `locate` then finds the time."""
    new, dense = problem.method.step(problem.flow, problem.settings, carry)
    if problem.stop is None:
        return new, dense
    hit = (new.t > carry.t) & problem.stop(new.t, new.y, problem.flow)
    status = jnp.where(hit, HIT, new.status).astype(int)
    return Carry(new.t, new.t_next, new.y, new.memory, status, new.steps, new.rejected), dense


def locate(problem: Problem, carry: Carry, dense: Any, differentiated: bool) -> Carry:
    """Cut the last step at the first time at which the stop rule holds, by bisection on the interpolant.

    Derivatives follow from the implicit function theorem: bisection finds the time t at which the margin g of the rule is 0,
    and `t - g(t, y(t)) / g'` has the same value as t and the derivative of the stopping time. `differentiated=False` skips this.
    """
    flow, method, stop = problem.flow, problem.method, problem.stop
    assert stop is not None
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
    problem: Problem,
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

    step: Callable = lambda state: attempt(problem, state[0])  # noqa: E731
    carry, dense = while_loop(going, step, (carry, dense), max_steps, adjoint)
    if problem.stop is None:
        return carry, dense
    hit = carry.status == HIT
    found = lambda c: choose(hit, locate(problem, c, dense, differentiated), c)  # noqa: E731
    return jax.lax.cond(eqxi.unvmap_any(hit), found, lambda c: c, carry), dense


def empty_dense(problem: Problem, carry: Carry) -> Any:
    """Return a placeholder for the `dense` output of `method.step`, to start a loop: zeros, for a step of size 1."""
    shapes = jax.eval_shape(lambda c: problem.method.step(problem.flow, problem.settings, c)[1], carry)
    dense = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return dense | {"t1": jnp.ones(())} if problem.method.interpolates else dense
