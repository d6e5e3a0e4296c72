"""Explicit Runge–Kutta methods: Diffrax's coefficients, interpolants and step-size controller, with a retraction."""

import dataclasses
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..flows import AbstractFlow
from .base import (
    BLOW_UP,
    FAILED,
    FINISHED,
    RUNNING,
    UNRESOLVED,
    VANISHED,
    AbstractMethod,
    Carry,
    Settings,
    choose,
    finite,
    new_carry,
    next_target,
)
from .stages import AbstractStages
from .while_loop import decided

SMALLEST_STEP = 1e-14  # relative to the time reached
SMALLEST_CHANGE = 1e-8  # a token that moves by more than this in the smallest step is blowing up
STRAIGHT = 0.1  # radians; a token whose direction rotates by more than this on its way to 0 may miss 0 in a fixed step
# Errors are scaled by the flow (see `AbstractFlow.error_size`), so the controller compares their size with 1.
CONTROLLER = diffrax.PIDController(rtol=0.0, atol=1.0, norm=jnp.abs, pcoeff=0.3, icoeff=0.4)


class RungeKutta(AbstractMethod):
    """An explicit Runge–Kutta method with error control, or with a fixed step dt.

    Args:
        stages: how the stages of a step are computed.
        order: the order of its steps.
        dt: a fixed step size instead of error control.
        interpolant: whether the interpolant is as accurate as the steps, and cheap; otherwise steps end at the save times.
        differentiated: keep rejected steps out of derivatives.
    """

    stages: AbstractStages
    order: int = eqx.field(static=True)
    dt: Float[Array, ""] | None = None
    interpolant: bool = eqx.field(static=True, default=True)
    differentiated: bool = eqx.field(static=True, default=False)

    interpolates: ClassVar[bool] = True
    random: ClassVar[bool] = False
    discrete: ClassVar[bool] = False

    @property
    def name(self):
        return self.stages.name

    def recorded(self, t1, rtol, atol, max_steps):
        return {"t1": t1, "rtol": rtol, "atol": atol, "dt": self.dt, "max_steps": max_steps}

    @property
    def fixed_step(self):
        return self.dt

    def check(self, flow, t1, save_at):
        pass

    def for_derivatives(self):
        return dataclasses.replace(self, differentiated=True)

    @property
    def continuous(self):
        return self.interpolant

    def init(self, flow, settings, t, y):
        y = flow.retract(y)
        if self.dt is None:
            dt, slope = first_step(flow, settings, t, y, self.order)
        else:
            dt, slope = self.dt, flow.velocity(t, y)
        t_next = self._clipped(flow, settings, t + dt, t, y)
        _, control = CONTROLLER.init(None, t, t, jnp.zeros(()), dt, None, None, self.order)  # type: ignore[arg-type]
        control = jax.tree.map(jnp.asarray, control)
        return new_carry(t, t_next, y, (slope if self.stages.keeps_slope else None, control))

    def step(self, flow, settings, carry):
        c, (slope, control) = carry, carry.memory
        field = lambda t, y: self._velocity(flow, jnp.minimum(t, settings.t_last), y, c.y)  # noqa: E731
        new = self.stages.take(flow, field, c.t, c.t_next, c.y, slope)
        ok = finite((new.y1, new.error, new.slope)) & flow.limits.contains(new.y1)
        y1 = flow.retract(choose(ok, new.y1, c.y))
        if self.dt is None:
            adapted = _adapted(flow, settings, c, ok, y1, new.error, self.order, control)
            keep, t, t_next, control, failed = decided(adapted)
        else:
            keep, failed = ok, ~ok
            t = jnp.where(ok, c.t_next, c.t)
            t_next = t + self.dt
        y = choose(keep, y1, c.y)
        status = jnp.where(failed, FAILED, jnp.where(t >= settings.t1, FINISHED, RUNNING)).astype(int)
        lost = flow.limits.unresolved(jax.lax.stop_gradient(y)) & (status == RUNNING)
        status = jnp.where(lost, UNRESOLVED, status).astype(int)
        t_next = self._clipped(flow, settings, t_next, t, y)
        slope = choose(keep, new.slope, slope) if self.stages.keeps_slope else None
        return Carry(t, t_next, y, (slope, control), status, c.steps + keep, c.rejected + ~keep), new.dense

    def no_step(self, y):
        return self.stages.none(y)

    def at(self, flow, dense, t):
        field = lambda t, y: self._velocity(flow, t, y, dense["y0"])  # noqa: E731
        return flow.retract(self.stages.between(flow, field, dense, t))

    def why_failed(self, flow, t, y):
        """Return the reason, as far as the velocity at y tells it.

        VANISHED: a token reaches length 0 within about one step. BLOW_UP: the velocity grows without bound. UNRESOLVED:
        double precision no longer determines the solution. FAILED: the right-hand side is NaN for another reason.
        """
        velocity = flow.velocity(t, y)
        left, angle = flow.limits.vanishing(y, velocity)
        smallest = jax.tree.map(lambda leaf: leaf * SMALLEST_STEP * t, velocity)
        grows = flow.change_size(smallest, y, y) >= SMALLEST_CHANGE
        if self.dt is None:
            vanished = left <= SMALLEST_STEP / SMALLEST_CHANGE * jnp.maximum(t, SMALLEST_STEP)
            time = t
        else:  # a fixed step may be too long near 0
            vanished, grows = (left <= 2 * self.dt) & (angle < STRAIGHT), grows & (left > 2 * self.dt)
            time = jnp.where(vanished, t + left, t)
        status = jnp.where(vanished, VANISHED, jnp.where(grows, BLOW_UP, FAILED))
        return jnp.where(flow.limits.hidden(y), UNRESOLVED, status), time

    def fault(self, flow, t, y):
        if self.dt is not None and flow.limits.vanishing(y, flow.velocity(jnp.asarray(t), y))[0] <= 2 * self.dt:
            return (
                f"dt = {float(self.dt):g} is too large at t = {t:.6g}, where a token passes near 0: use a smaller dt, or "
                "dt=None for adaptive steps"
            )
        return (
            f"no step succeeds at t = {t:.6g}, where the velocity is NaN or infinite: it overflows "
            f"({flow.limits.overflow_advice}), or a function of time such as A(t) is not finite, or an iteration such as "
            "Sinkhorn's did not converge (increase max_iterations)"
        )

    def _velocity(self, flow: AbstractFlow, t: Array, y: Any, inside: Any) -> Any:
        """Return the right-hand side. In derivatives, a stage outside its domain is evaluated inside it and becomes NaN.

        The step is rejected either way. Otherwise, `0 · NaN` from its stages would spread to all gradients in reverse mode.
        """
        if not self.differentiated:
            return flow.velocity(t, y)
        ok = finite(y) & flow.limits.contains(y)
        slope = eqx.filter_checkpoint(flow.velocity)(t, choose(ok, y, inside))
        return jax.tree.map(lambda leaf: jnp.where(ok, leaf, jnp.nan), slope)

    def _clipped(self, flow: AbstractFlow, settings: Settings, t_next: Array, t: Array, y: Any) -> Array:
        """Return the end of the next step, no later than the flow, the segment or the next save time allow."""
        longest = flow.limits.longest_step(t, y) if self.dt is None else None
        if longest is not None:
            t_next = jnp.minimum(t_next, t + jax.lax.stop_gradient(longest))
        end = settings.t1 if self.continuous else next_target(settings, t)
        return jnp.where(t_next >= end - 1e-12 * (end - t), end, t_next)


def _adapted(
    flow: AbstractFlow, settings: Settings, c: Carry, ok: Array, y1: Any, error: Any, order: int, control: Any
):
    """Return `(keep, t, t_next, control, failed)` of a trial step. It has no derivatives: those are of the accepted steps."""
    stopped = jax.lax.stop_gradient((c.t, c.t_next, c.y, y1, error, settings.rtol, settings.atol))
    t0, t1, y0, y1, error, rtol, atol = stopped
    size = jnp.where(ok, flow.error_size(error, y0, y1, rtol, atol), jnp.inf)
    size = jax.lax.stop_gradient(jnp.where(jnp.isnan(size), jnp.inf, size))
    zero = jnp.zeros(())
    keep, t, t_next, _, control, _ = CONTROLLER.adapt_step_size(t0, t1, zero, zero, None, size, order, control)
    # At the smallest step a jump of the field is crossed rather than resolved; a blow-up is reported.
    dt = t1 - t0
    tiny = (dt <= SMALLEST_STEP * jnp.maximum(jnp.abs(t0), SMALLEST_STEP)) & ~keep
    change = flow.change_size(jax.tree.map(jnp.subtract, y1, y0), y0, y1)
    cross = tiny & ok & (change < SMALLEST_CHANGE)
    keep, failed = keep | cross, tiny & ~cross
    t, t_next = jnp.where(cross, t1, t), jnp.where(cross, t1 + 10 * dt, t_next)
    # The time reached is the end of the step, with its derivative: the last step ends at t1.
    return keep, jnp.where(keep, c.t_next + (t - t1), c.t), jax.lax.stop_gradient(t_next), control, failed


def first_step(flow: AbstractFlow, settings: Settings, t0: Array, y0: Any, order: int) -> tuple[Float[Array, ""], Any]:
    """Return a first step whose Euler increment and curvature are within the tolerances (Hairer et al., II.4), and the slope."""
    still = jax.lax.stop_gradient
    size = lambda v: flow.error_size(still(v), still(y0), still(y0), still(settings.rtol), still(settings.atol))  # noqa: E731
    d0 = size(y0)

    def evaluate(at, _):  # as a loop, so that the velocity is compiled once
        f = flow.velocity(*at)
        d1 = size(f)
        h0 = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
        moved = t0 + h0, jax.tree.map(lambda y, f: y + h0 * f, y0, f)
        # Where f is NaN, as in a segment that is not run, it would spread to all derivatives as `0 · NaN`.
        return still(choose(finite(f), moved, (t0, y0))), (f, d1, h0)

    _, (fs, d1, h0) = jax.lax.scan(evaluate, (t0, y0), None, length=2)
    slope = jax.tree.map(lambda f: f[0], fs)
    d1, h0 = d1[0], h0[0]
    d2 = size(jax.tree.map(lambda f: f[1] - f[0], fs)) / h0
    steepest = jnp.maximum(d1, d2)
    h1 = jnp.where(steepest <= 1e-15, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / steepest) ** (1 / order))
    h = jnp.minimum(100 * h0, h1)
    return still(jnp.where(jnp.isfinite(h) & (h > 0), h, 1e-12)), slope
