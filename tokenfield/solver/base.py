"""The interface of a method: `init` and `step` on one carry."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..flows import AbstractFlow
from .stop import OnFlow

# Status of a run. It is RUNNING until one of the others ends it. HIT: the stop rule holds, but its time is not located yet.
# FAILED: no step succeeds; `why_failed` then looks for a reason. UNRESOLVED: the unknowns no longer determine the solution.
RUNNING, FINISHED, STOPPED, FAILED, HIT, BLOW_UP, VANISHED, UNRESOLVED, MAX_STEPS, FOLDED = range(10)
REASONS = {
    RUNNING: "running",
    FINISHED: "finished",
    STOPPED: "stopped",
    FAILED: "failed",
    HIT: "stopped",
    BLOW_UP: "blow_up",
    VANISHED: "vanished",
    UNRESOLVED: "resolution",
    MAX_STEPS: "max_steps",
    FOLDED: "fold",
}


class Carry(eqx.Module):
    """The complete state of a run at one time, within a smooth segment."""

    t: Float[Array, ""]
    t_next: Float[Array, ""]
    """End of the next trial step."""
    y: Any
    memory: Any
    """Data that the method passes from one step to the next."""
    status: Int[Array, ""]
    steps: Int[Array, ""]
    rejected: Int[Array, ""]


class Settings(eqx.Module):
    """Settings that stay constant during a segment."""

    t1: Float[Array, ""]
    t_last: Float[Array, ""]
    """The last time at which the right-hand side may be evaluated: just before t1 if the right-hand side jumps there."""
    save_at: Float[Array, " m"]
    """The save times of the whole run. Methods without an interpolant step onto them."""
    rtol: Float[Array, ""]
    atol: Float[Array, ""]


class AbstractMethod(eqx.Module):
    """A time-stepping method: `carry = init(...)`, then `carry, dense = step(...)` until the status is no longer RUNNING.

    Both are pure functions of arrays, for any flow that the method accepts. A step checkpoints the flow's evaluation, so
    that derivatives store its arguments and recompute the rest. `dense` describes the last step, and `at`
    evaluates the unknowns at any time within that step.
    """

    interpolates: eqx.AbstractClassVar[bool]
    """True if the solution is defined inside a step, so that a stop can be located there."""

    random: eqx.AbstractClassVar[bool]
    """True for a method that adds the noise of an `AbstractNoisyFlow`; others are for flows without noise."""

    discrete: eqx.AbstractClassVar[bool]
    """True for a method that applies the layers of a `layer_flow`; others integrate the velocity of a flow."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name under which results record the method."""

    @abc.abstractmethod
    def recorded(self, t1: Array, rtol: Array, atol: Array, max_steps: Array) -> dict[str, Any]:
        """Return the settings that results record, of those given and its own: the ones it uses."""

    @property
    @abc.abstractmethod
    def fixed_step(self) -> Array | None:
        """The fixed step size; None if the method chooses its steps by their errors."""

    @abc.abstractmethod
    def check(self, flow: AbstractFlow, t1: Array, save_at: Array) -> None:
        """Raise ValueError unless the method fits the flow and, as far as they are known, the times."""

    @abc.abstractmethod
    def for_derivatives(self) -> "AbstractMethod":
        """Return the method for a run that may be differentiated."""

    @property
    @abc.abstractmethod
    def continuous(self) -> bool:
        """True if `at` is as accurate as the steps, and cheap. If False, steps end exactly at the save times."""

    @abc.abstractmethod
    def init(self, flow: AbstractFlow, settings: Settings, t: Float[Array, ""], y: Any) -> Carry:
        """Return the carry at the start of a smooth segment."""

    @abc.abstractmethod
    def step(self, flow: AbstractFlow, settings: Settings, carry: Carry) -> tuple[Carry, Any]:
        """Try one step. A rejected step leaves t and y unchanged and shortens `t_next`."""

    @abc.abstractmethod
    def no_step(self, y: Any) -> Any:
        """Return a `dense` of the same shape as that of `step`, to start a loop: zeros, for a step of size 1."""

    @abc.abstractmethod
    def at(self, flow: AbstractFlow, dense: Any, t: Float[Array, ""]) -> Any:
        """Return the unknowns at a time t within the step that `dense` describes."""

    @abc.abstractmethod
    def why_failed(self, flow: AbstractFlow, t: Float[Array, ""], y: Any) -> tuple[Int[Array, ""], Float[Array, ""]]:
        """Return the `(status, time)` of a run of which no step succeeds from time t: FAILED if that is not a result."""

    @abc.abstractmethod
    def fault(self, flow: AbstractFlow, t: float, y: Any) -> str:
        """Return what went wrong in a run that ended as FAILED at time t, and what to do, for an error message."""


class Problem(eqx.Module):
    """A smooth segment of a run: everything that stays constant while it is integrated.

    Args:
        observe: a function of the state whose value is saved instead of the unknowns; None to save the unknowns.
        ensemble: True if the arrays of `flow` and `method` have a leading member axis; the rest is shared.
    """

    flow: AbstractFlow
    method: AbstractMethod
    settings: Settings
    stop: OnFlow | None
    observe: Any = None
    ensemble: bool = eqx.field(static=True, default=False)


def new_carry(t: Array, t_next: Array, y: Any, memory: Any) -> Carry:
    """Return a carry before its first step."""
    zero = jnp.zeros((), int)
    return Carry(t, t_next, y, memory, zero + RUNNING, zero, zero)


def finite(tree: Any) -> Bool[Array, ""]:
    """Return True if every number in a tree is finite."""
    checks = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.stack(checks).all()


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Apply `jnp.where` to trees; the axes of the condition are the leading ones of every array."""
    axes = lambda a: jnp.shape(condition) + (1,) * (jnp.ndim(a) - jnp.ndim(condition))  # noqa: E731
    return jax.tree.map(lambda a, b: jnp.where(jnp.reshape(condition, axes(a)), a, b), yes, no)


def next_target(settings: Settings, t: Float[Array, ""]) -> Float[Array, ""]:
    """Return the next time at which a step must end: the next save time after t, or the end of the segment."""
    if not settings.save_at.size:
        return settings.t1
    target = jnp.where(settings.save_at > t, settings.save_at, jnp.inf).min()
    return jnp.where(target < settings.t1, target, settings.t1)  # with the derivative of t1 if both are equal
