"""The time loop: Diffrax's steps and step-size control, cut in chunks that change no bit of the result.

`diffeqsolve` does not hand back its next step, so a run in pieces would differ from a run in one go. Here all that
the loop needs is in `Carry`, and a chunk is "go on for at most this many steps".
"""

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


def first_step(flow: AbstractFlow, settings: Settings, t0, y0, order: int) -> Float[Array, ""]:
    """A first step whose Euler increment and curvature are within the tolerances (Hairer et al., II.4)."""
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
    return jnp.where(jnp.isfinite(h) & (h > 0), h, 1e-12)


def start_(flow: AbstractFlow, stepper: Stepper, settings: Settings, t0, y0, saved, saved_count) -> Carry:
    """The carry at the beginning of a smooth segment."""
    y0 = flow.retract(y0)
    dt = first_step(flow, settings, t0, y0, stepper.order) if settings.dt is None else settings.dt
    longest = flow.longest_step(t0, y0) if settings.dt is None else None
    t_next = jnp.minimum(t0 + (dt if longest is None else jnp.minimum(dt, longest)), settings.t1)
    solver_state = jax.tree.map(jnp.asarray, stepper.solver.init(TERM, t0, t_next, y0, (flow, settings)))
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


def advance_(
    flow: AbstractFlow,
    stepper: Stepper,
    settings: Settings,
    stop,
    carry: Carry,
    budget: Array,
    observe=None,
    finish=True,
) -> Carry:
    """Go on for at most `budget` trial steps. `stop(t, y, flow)` says when to end early (None: never).

    At the save times the unknowns are saved, or `observe(state)` if it is given.
    A step at whose end `stop` holds is not taken in the loop: it is repeated after it, and the moment is looked for.
    Members side by side would otherwise all pay for the search at every step. With `finish="later"` it is left out, and the
    status is then HIT; `finish="only"` does nothing else.
    """
    solver, args = stepper.solver, (flow, settings)
    last_step = carry.steps + carry.rejected + budget

    def running(c: Carry):
        return (c.status == RUNNING) & (c.steps + c.rejected < last_step)

    def step(c: Carry) -> Carry:
        y1, error, dense, solver_state, _ = solver.step(TERM, c.t, c.t_next, c.y, args, c.solver_state, False)
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
        if stop is not None:
            hit = keep & stop(t, y1, flow)
            keep, t = keep & ~hit, jnp.where(hit, c.t, t)
            status = jnp.where(hit, HIT, status)
        y = choose(keep, y1, c.y)
        t_next = clip(t_next, t, y)
        if stop is not None:
            t_next = jnp.where(hit, c.t_next, t_next)
        solver_state = choose(keep, solver_state, c.solver_state)
        status = jnp.where(failed, UNDERFLOW, status).astype(int)
        saved, saved_count = save(c, keep, t, y, inside(c, dense))
        return Carry(
            t,
            t_next,
            y,
            solver_state,
            controller_state,
            saved,
            saved_count,
            status,
            c.steps + keep,
            c.rejected + (~keep & (status != HIT)),
        )

    def inside(c: Carry, dense):
        interpolant = solver.interpolation_cls(t0=c.t, t1=c.t_next, **dense)
        return lambda s: flow.retract(interpolant.evaluate(s))

    def end(c: Carry) -> Carry:
        """The last step of a run that `stop` ends."""
        y1, _, dense, solver_state, _ = solver.step(TERM, c.t, c.t_next, c.y, args, c.solver_state, False)
        between = inside(c, dense)
        t, y = crossing(between, c.t, c.t_next, flow.retract(y1))
        saved, saved_count = save(c, jnp.array(True), t, y, between)
        solver_state, status = jax.tree.map(jnp.asarray, solver_state), jnp.full_like(c.status, STOPPED)
        return Carry(t, t, y, solver_state, c.controller_state, saved, saved_count, status, c.steps + 1, c.rejected)

    def clip(t_next, t, y):
        end = settings.t1
        longest = flow.longest_step(t, y) if settings.dt is None else None
        if longest is not None:
            t_next = jnp.minimum(t_next, t + longest)
        if not stepper.interpolates and settings.save_at.size:
            later = jnp.where(settings.save_at > t, settings.save_at, settings.t1)
            end = jnp.minimum(end, later.min())
        return jnp.where(t_next >= end - 1e-12 * (end - t), end, t_next)

    def crossing(between, low, high, y_high):
        """The first moment of the step at which `stop` holds, by bisection."""

        def halve(_, bracket):
            low, high, y_high = bracket
            middle = 0.5 * (low + high)
            y = between(middle)
            hit = stop(middle, y, flow)
            return jnp.where(hit, low, middle), jnp.where(hit, middle, high), choose(hit, y, y_high)

        _, high, y_high = jax.lax.fori_loop(0, settings.halvings, halve, (low, high, y_high))
        return high, y_high

    def save(c, keep, t, y, between):
        if not settings.save_at.size:
            return c.saved, c.saved_count
        due = lambda k: keep & (k < settings.save_at.size) & (settings.save_at.at[k].get(mode="clip") <= t)  # noqa: E731

        def write(carry):
            saved, k = carry
            time = settings.save_at[k]
            value = choose(time == t, y, between(time))
            value = value if observe is None else observe(flow.unpack(value))
            return jax.tree.map(lambda buffer, v: buffer.at[k].set(v), saved, value), k + 1

        return jax.lax.while_loop(lambda carry: due(carry[1]), write, (c.saved, c.saved_count))

    if finish != "only":
        carry = jax.lax.while_loop(running, step, carry)
    return carry if stop is None or finish == "later" else jax.lax.cond(carry.status == HIT, end, lambda c: c, carry)


start = eqx.filter_jit(start_)
advance = eqx.filter_jit(advance_, compiler_options=WIDE_VECTORS)  # type: ignore[call-overload]
# The same for many members side by side, each with its own steps: flow, unknowns and carry have a leading axis.
# `alone` they use one thread and are compiled in one piece, so that bits do not depend on the number of threads.
each = eqx.if_array(0)
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_parallel_codegen_split_count": 1}
_start = eqx.filter_vmap(start_, in_axes=(each, None, None, None, each, each, each))
_advance = eqx.filter_vmap(advance_, in_axes=(each, None, None, None, each, None, None, None))
start_many = eqx.filter_jit(_start)
advance_many = eqx.filter_jit(_advance, compiler_options=WIDE_VECTORS)  # type: ignore[call-overload]
start_many_alone = eqx.filter_jit(_start, compiler_options=ONE_THREAD)  # type: ignore[call-overload]
advance_many_alone = eqx.filter_jit(_advance, compiler_options=WIDE_VECTORS | ONE_THREAD)  # type: ignore[call-overload]
