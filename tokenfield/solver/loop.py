"""Trial steps, the time of a stop within a step, and the time loop of `solve`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .base import HIT, RUNNING, STOPPED, Carry, Problem, choose
from .root import sign_change
from .while_loop import decided, while_loop


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
    status = new.status
    if problem.stop is not None:
        hit = (new.t > carry.t) & problem.stop(new.t, new.y, problem.flow)
        status = jnp.where(hit, HIT, status).astype(int)
    return Carry(new.t, decided(new.t_next), new.y, new.memory, decided(status), new.steps, new.rejected), dense


def unknowns_at(problem: Problem, carry: Carry, dense: Any, time: Array) -> Any:
    """Return the unknowns at a save time in the last step: from its end on those of the carry, before it the interpolant."""
    if not problem.method.continuous:  # steps end at the save times
        return carry.y
    inside = time < carry.t
    return choose(inside, problem.method.at(problem.flow, dense, jnp.where(inside, time, carry.t)), carry.y)


def differentiable_unknowns_at(problem: Problem, carry: Carry, dense: Any, time: Array) -> Any:
    """Return `unknowns_at` with its derivative by the save time, which is the velocity at the end of the step too."""
    y = unknowns_at(problem, carry, dense, time)
    if not problem.method.interpolates:
        return y
    return _shifted(y, time, carry.t, eqx.filter_closure_convert(problem.flow.velocity, carry.t, carry.y))


@eqx.filter_custom_jvp
def _shifted(y: Any, time: Array, t: Array, velocity: Callable) -> Any:
    """Return y, the unknowns at a time. If it is the end t of the step, y has the derivative by t, but not by `time`."""
    return y


@_shifted.def_jvp
def _(primals, tangents):
    (y, time, t, velocity), (dy, *changes, _) = primals, tangents
    if changes == [None, None]:
        return y, dy
    dtime, dt = (0.0 if change is None else change for change in changes)
    shift = lambda v: (dtime - dt) * jnp.where(time == t, v, 0)  # noqa: E731
    return y, jax.tree.map(lambda v, dy: shift(v) if dy is None else shift(v) + dy, velocity(t, y), dy)


def locate(problem: Problem, carry: Carry, dense: Any, differentiated: bool) -> Carry:
    """Cut the last step at the time from which the stop rule holds, to rounding, by the method's solution within the step.

    Its derivatives, of any order, follow from the implicit function theorem (`_root`). `differentiated=False` skips them.
    """
    method, stop = problem.method, problem.stop
    assert stop is not None
    if not method.interpolates:
        return _stopped(carry, carry.t, carry.y)
    begin, end = jax.lax.stop_gradient((dense["t0"], carry.t))
    # Under vmap, members that did not stop have an empty bracket: the search does not wait for them.
    begin = jnp.where(carry.status == HIT, begin, end)
    at = lambda t, dense: method.at(problem.flow, dense, t)  # noqa: E731
    margin = lambda t, y: stop.margin(t, y, problem.flow)  # noqa: E731
    if not differentiated:
        t = sign_change(lambda t: margin(t, at(t, dense)), begin, end)
        return _stopped(carry, t, choose(t >= end, carry.y, at(t, dense)))
    # What the functions of a model or a rule close over becomes an argument: a custom derivative must not close over it.
    closed = lambda function, *given: eqx.filter_closure_convert(function, end, *given)  # noqa: E731
    step = LastStep(closed(at, dense), closed(problem.flow.velocity, carry.y), closed(margin, carry.y), dense)
    if not stop.differentiable:
        numbers, functions = eqx.partition(step, eqx.is_array)
        t = _stop_time(eqx.combine(jax.lax.stop_gradient(numbers), functions), begin, end)
        message = "stop_when has no derivative here: give a function of the state that returns a real number, >= 0 at the stop"
        t, y, _ = eqxi.nondifferentiable((t, step.at(t, dense), numbers.margin), msg=message)
        return _stopped(carry, t, y)
    # Under vmap this also runs for members that did not stop, whose margin may have zero rate.
    t = _root(step, begin, end, carry.status == HIT)
    y = _along(t, step)
    at_end = jax.lax.stop_gradient(t) >= end  # the state at the end of the step is more accurate than the interpolant
    return _stopped(
        carry, t, jax.tree.map(lambda y, last: y + jnp.where(at_end, jax.lax.stop_gradient(last - y), 0), y, carry.y)
    )


class LastStep(eqx.Module):
    """The step in which a run stops: the unknowns `at(t, dense)`, their `velocity(t, y)`, and the `margin(t, y)` of the rule."""

    at: Callable
    velocity: Callable
    margin: Callable
    dense: Any


def _stop_time(step: LastStep, begin: Array, end: Array) -> Array:
    """Return the time in a step from which the stop rule holds."""
    return sign_change(lambda t: step.margin(t, step.at(t, step.dense)), begin, end)


@eqx.filter_custom_jvp
def _root(step: LastStep, begin: Array, end: Array, hit: Array) -> Array:
    """Return the time t at which the margin g of the stop rule is 0. Its derivative is `-dg / (dg/dt)`, along the flow."""
    return _stop_time(step, begin, end)


@_root.def_jvp
def _(primals, tangents):
    step, begin, end, hit = primals
    t = _root(step, begin, end, hit)
    margin = lambda t, step: step.margin(t, _along(t, step))  # noqa: E731
    # Under vmap, members that did not stop have no derivative here. Their margin may be NaN: what goes in is masked for reverse
    # mode, what comes out for forward mode.
    if_hit = lambda leaf: jnp.where(hit, leaf, 0)  # noqa: E731
    _, change = eqx.filter_jvp(lambda step: margin(t, step), (step,), (jax.tree.map(if_hit, tangents[0]),))
    _, rate = jax.jvp(lambda t: margin(t, step), (t,), (jnp.ones_like(t),))
    rate = jnp.where(hit, jnp.where(rate == 0, jnp.nan, rate), 1.0)
    return t, -if_hit(0.0 if change is None else change) / rate


@eqx.filter_custom_jvp
def _along(t: Array, step: LastStep) -> Any:
    """Return the unknowns at a time within a step. Their derivative in time is the velocity, not the slope of the interpolant."""
    return step.at(t, step.dense)


@_along.def_jvp
def _(primals, tangents):
    t, step = primals
    dt, dstep = tangents
    y = _along(t, step)
    _, moved = eqx.filter_jvp(lambda step: step.at(t, step.dense), (step,), (dstep,))
    if dt is None:
        return y, moved
    velocity = step.velocity(t, y)
    return y, jax.tree.map(lambda v, moved: dt * v if moved is None else dt * v + moved, velocity, moved)


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
