"""The time loop: Diffrax's steps and step-size control, cut in chunks that change no bit of the result.

`diffeqsolve` does not hand back its next step, so a run in pieces would differ from a run in one go. Here all that
the loop needs is in `Carry`, and a chunk is "go on for at most this many steps".
"""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..flows import AbstractFlow
from .steppers import Stepper

RUNNING, FINISHED, STOPPED, UNDERFLOW, HIT = 0, 1, 2, 3, 4
SMALLEST_STEP = 1e-14  # relative to the time reached
SMALLEST_CHANGE = 1e-8  # a token that moves by more than this in the smallest step is blowing up


class Carry(eqx.Module):
    """All that a run is at one moment."""

    t: Float[Array, ""]
    t_next: Float[Array, ""]
    y: Any
    solver_state: Any
    controller_state: Any
    saved: Any
    saved_count: Int[Array, ""]
    status: Int[Array, ""]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]


class Settings(eqx.Module):
    """What stays the same during a run."""

    t1: Float[Array, ""]
    t_last: Float[Array, ""]
    """The last time at which the field may be asked for: just before t1 when the field jumps there."""
    save_at: Float[Array, " m"]
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    dt: Float[Array, ""] | None
    halvings: int = 50
    """How often a step is halved to find the moment of a stop: 50 for all digits."""


TERM = diffrax.ODETerm(lambda t, y, args: args[0].velocity(jnp.minimum(t, args[1].t_last), y))
WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}  # about 20 % faster runs, on machines that have them
# The loop scales errors itself (see `AbstractFlow.error_size`), so the controller compares their size with 1.
CONTROLLER = diffrax.PIDController(rtol=0.0, atol=1.0, norm=jnp.abs, pcoeff=0.3, icoeff=0.4)


def first_step(flow: AbstractFlow, settings: Settings, t0, y0, order: int) -> tuple[Float[Array, ""], Any]:
    """A first step whose Euler increment and curvature are within the tolerances (Hairer et al., II.4), and the velocity."""
    size = lambda v: flow.error_size(v, y0, y0, settings.rtol, settings.atol)  # noqa: E731
    d0 = size(y0)

    def evaluate(at, _):  # as a loop, so that the velocity is compiled once
        f = flow.velocity(*at)
        d1 = size(f)
        h0 = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
        return (t0 + h0, jax.tree.map(lambda y, f: y + h0 * f, y0, f)), (f, d1, h0)

    _, (fs, d1, h0) = jax.lax.scan(evaluate, (t0, y0), None, length=2)
    d1, h0 = d1[0], h0[0]
    d2 = size(jax.tree.map(lambda f: f[1] - f[0], fs)) / h0
    steepest = jnp.maximum(d1, d2)
    h1 = jnp.where(steepest <= 1e-15, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / steepest) ** (1 / order))
    h = jnp.minimum(100 * h0, h1)
    return jnp.where(jnp.isfinite(h) & (h > 0), h, 1e-12), jax.tree.map(lambda f: f[0], fs)


def start_(flow: AbstractFlow, stepper: Stepper, settings: Settings, t0, y0, saved, saved_count) -> Carry:
    """The carry at the beginning of a smooth segment."""
    y0 = flow.retract(y0)
    if settings.dt is None:
        dt, velocity = first_step(flow, settings, t0, y0, stepper.order)
    else:
        dt, velocity = settings.dt, flow.velocity(t0, y0)
    longest = flow.longest_step(t0, y0) if settings.dt is None else None
    t_next = jnp.minimum(t0 + (dt if longest is None else jnp.minimum(dt, longest)), settings.t1)
    solver_state = stepper.solver.init(TERM, t0, t_next, y0, (flow, settings))
    if solver_state is not None:  # (True, zeros) asks for the velocity in the first step: of all members, if of one
        solver_state = jnp.array(False), velocity
    one = jnp.ones(())
    zero = jnp.zeros((), int)
    return Carry(
        t0, t_next, y0, solver_state, (one, one, jnp.array(False)), saved, saved_count, zero + RUNNING, zero, zero
    )


def finite(tree) -> Bool[Array, ""]:
    checks = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.stack(checks).all()


def choose(condition, yes, no):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def trial(flow: AbstractFlow, stepper: Stepper, settings: Settings, stop, c: Carry) -> tuple[Carry, Any]:
    """One trial step, and what its interpolant is made of (for `inside`). Nothing is saved yet.

    `stop(t, y, flow)` says when to end early (None: never). A step at whose end it holds is not taken: the status is then
    HIT, and `last` repeats the step and looks for the moment.
    """
    y1, error, dense, solver_state, _ = stepper.solver.step(
        TERM, c.t, c.t_next, c.y, (flow, settings), c.solver_state, False
    )
    solver_state = jax.tree.map(jnp.asarray, solver_state)
    ok = finite((y1, error, solver_state))
    y1 = flow.retract(choose(ok, y1, c.y))
    if settings.dt is None:
        size = jnp.where(ok, flow.error_size(error, c.y, y1, settings.rtol, settings.atol), jnp.inf)
        size = jnp.where(jnp.isnan(size), jnp.inf, size)
        keep, t, t_next, _, controller_state, _ = CONTROLLER.adapt_step_size(
            c.t, c.t_next, jnp.zeros(()), jnp.zeros(()), None, size, stepper.order, c.controller_state
        )
        # At the smallest step a jump of the field is crossed rather than resolved; a blow-up is reported.
        dt = c.t_next - c.t
        tiny = (dt <= SMALLEST_STEP * jnp.maximum(jnp.abs(c.t), SMALLEST_STEP)) & ~keep
        change = flow.error_size(jax.tree.map(jnp.subtract, y1, c.y), c.y, y1, 1.0, 1e-300)
        cross = tiny & ok & (change < SMALLEST_CHANGE)
        keep, failed = keep | cross, tiny & ~cross
        t, t_next = jnp.where(cross, c.t_next, t), jnp.where(cross, c.t_next + 10 * dt, t_next)
    else:
        keep, t, controller_state, failed = ok, jnp.where(ok, c.t_next, c.t), c.controller_state, ~ok
        t_next = t + settings.dt
    status = jnp.where(t >= settings.t1, FINISHED, RUNNING)
    hit = jnp.array(False)
    if stop is not None:
        hit = keep & stop(t, y1, flow)
        keep, t = keep & ~hit, jnp.where(hit, c.t, t)
        status = jnp.where(hit, HIT, status)
    y = choose(keep, y1, c.y)
    t_next = jnp.where(hit, c.t_next, _clipped(flow, stepper, settings, t_next, t, y))
    return Carry(
        t,
        t_next,
        y,
        choose(keep, solver_state, c.solver_state),
        controller_state,
        c.saved,
        c.saved_count,
        jnp.where(failed, UNDERFLOW, status).astype(int),
        c.steps + keep,
        c.rejected + (~keep & ~hit),
    ), dense


def _clipped(flow: AbstractFlow, stepper: Stepper, settings: Settings, t_next, t, y):
    """The end of the next step, no later than the flow, the run or times to be saved allow."""
    end = settings.t1
    longest = flow.longest_step(t, y) if settings.dt is None else None
    if longest is not None:
        t_next = jnp.minimum(t_next, t + longest)
    if not stepper.interpolates and settings.save_at.size:
        later = jnp.where(settings.save_at > t, settings.save_at, settings.t1)
        end = jnp.minimum(end, later.min())
    return jnp.where(t_next >= end - 1e-12 * (end - t), end, t_next)


def inside(flow: AbstractFlow, stepper: Stepper, t0, t1, dense) -> Callable[[Array], Any]:
    """The unknowns at any time of the step from t0 to t1."""
    interpolant = stepper.solver.interpolation_cls(t0=t0, t1=t1, **dense)
    return lambda s: flow.retract(interpolant.evaluate(s))


def last(flow: AbstractFlow, stepper: Stepper, settings: Settings, stop, c: Carry) -> tuple[Carry, Any]:
    """The last step of a run that `stop` ends, cut at the first moment at which it holds, which bisection finds."""
    y1, _, dense, solver_state, _ = stepper.solver.step(
        TERM, c.t, c.t_next, c.y, (flow, settings), c.solver_state, False
    )
    between = inside(flow, stepper, c.t, c.t_next, dense)

    def halve(_, bracket):
        low, high, y_high = bracket
        middle = 0.5 * (low + high)
        y = between(middle)
        hit = stop(middle, y, flow)
        return jnp.where(hit, low, middle), jnp.where(hit, middle, high), choose(hit, y, y_high)

    _, t, y = jax.lax.fori_loop(0, settings.halvings, halve, (c.t, c.t_next, flow.retract(y1)))
    solver_state, status = jax.tree.map(jnp.asarray, solver_state), jnp.full_like(c.status, STOPPED)
    return Carry(
        t, t, y, solver_state, c.controller_state, c.saved, c.saved_count, status, c.steps + 1, c.rejected
    ), dense


def advance_(flow: AbstractFlow, stepper: Stepper, settings: Settings, stop, carry: Carry, budget: Array) -> Carry:
    """Go on for at most `budget` trial steps, saving the unknowns at the save times."""
    last_step = carry.steps + carry.rejected + budget

    def running(c: Carry):
        return (c.status == RUNNING) & (c.steps + c.rejected < last_step)

    def save(before: Carry, after: Carry, dense) -> Carry:
        if not settings.save_at.size:
            return after
        between = inside(flow, stepper, before.t, before.t_next, dense)

        def due(state):
            return (state[1] < settings.save_at.size) & (settings.save_at.at[state[1]].get(mode="clip") <= after.t)

        def write(state):
            saved, k = state
            value = choose(settings.save_at[k] == after.t, after.y, between(settings.save_at[k]))
            return jax.tree.map(lambda buffer, v: buffer.at[k].set(v), saved, value), k + 1

        saved = jax.lax.while_loop(due, write, (after.saved, after.saved_count))
        return eqx.tree_at(lambda c: (c.saved, c.saved_count), after, saved)

    carry = jax.lax.while_loop(running, lambda c: save(c, *trial(flow, stepper, settings, stop, c)), carry)
    if stop is None:
        return carry
    end = lambda c: save(c, *last(flow, stepper, settings, stop, c))  # noqa: E731
    return jax.lax.cond(carry.status == HIT, end, lambda c: c, carry)


start = eqx.filter_jit(start_)
advance = eqx.filter_jit(advance_, compiler_options=WIDE_VECTORS)  # type: ignore[call-overload]
each = eqx.if_array(0)  # the axis of members side by side
