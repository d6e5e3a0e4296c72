"""The discrete Transformer as a method: one step is one layer."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, is_concrete
from .._shown import shown
from .._types import Number
from .base import (
    BLOW_UP,
    FAILED,
    FINISHED,
    FOLDED,
    RUNNING,
    UNRESOLVED,
    VANISHED,
    AbstractMethod,
    Carry,
    Settings,
    choose,
    finite,
    new_carry,
)

LATE = 1e-9  # relative to a step: tolerance for rounding, so that layers end exactly at save times and at t1


class Layers(AbstractMethod):
    """Apply `x <- norm(x, h sublayer)` for attention and then the MLP: a step of size h is one Transformer layer (FORMULAS §2, §7).

    Layer l acts at time `l h`. As `h -> 0` the layers tend to the flow.

    Args:
        step: the step size h; 1 is a standard Transformer layer.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Layers(step=0.5)
        Layers(step=0.5)
    """

    h: Float[Array, ""]
    interpolates: ClassVar[bool] = False
    random: ClassVar[bool] = False
    discrete: ClassVar[bool] = True

    @property
    def name(self):
        return "layers"

    def recorded(self, t1, rtol, atol, max_steps):
        return {"depth": jnp.round(t1 / self.h).astype(int), "step": self.h}

    @property
    def fixed_step(self):
        return self.h

    def for_derivatives(self):
        return self

    @property
    def continuous(self):
        return False

    def __init__(self, step: Number = 1.0):
        self.h = as_float("step", step, 0)
        if is_concrete(self.h) and not float(self.h) > 0:
            raise ValueError(f"step must be > 0, got {shown(step)}")

    def __repr__(self) -> str:
        return f"Layers(step={shown(float(self.h)) if is_concrete(self.h) else self.h})"

    def check(self, flow, t1, save_at):
        """Raise ValueError unless t1 and the save times are multiples of the step, as far as they are known."""
        if not is_concrete(t1, save_at, self.h):
            return
        h = float(self.h)
        for name, times in (("t1", np.atleast_1d(t1)), ("save_at", np.asarray(save_at))):
            layers = times / h
            wrong = times[np.abs(layers - np.round(layers)) > LATE]
            if wrong.size:
                raise ValueError(f"{name} must be a multiple of the step of Layers, {h:g}, got {wrong[0]:g}")

    def init(self, flow, settings, t, y):
        return new_carry(t, t + self.h, y, None)

    def step(self, flow, settings, carry):
        number = jnp.round(carry.t / self.h)
        y, vanished = eqx.filter_checkpoint(flow.layer)(number * self.h, carry.y, self.h)
        t = self._snapped(settings, (number + 1) * self.h)
        before, after = jax.lax.stop_gradient((carry.y, y))
        folded, lost = flow.folds(number * self.h, before, self.h), flow.limits.unresolved(after)
        ok = finite(y) & ~(vanished | folded | lost)
        status = jnp.where(t >= settings.t1, FINISHED, RUNNING)
        for failed, reason in ((~ok, FAILED), (lost, UNRESOLVED), (folded, FOLDED), (vanished, VANISHED)):
            status = jnp.where(failed, reason, status).astype(int)
        t, y = jnp.where(ok, t, carry.t), choose(ok, y, carry.y)
        return Carry(t, t + self.h, y, None, status, carry.steps + ok, carry.rejected), y

    def _snapped(self, settings: Settings, t: Array) -> Array:
        """Return the save time or the end of the segment where t is equal to it up to rounding, otherwise t."""
        late = LATE * self.h
        if settings.save_at.size:
            saved = settings.save_at[jnp.searchsorted(settings.save_at[:-1], t - late)]
            t = jnp.where(jnp.abs(t - saved) < late, saved, t)
        return jnp.where(jnp.abs(t - settings.t1) < late, settings.t1, t)

    def no_step(self, y):
        return jax.tree.map(jnp.zeros_like, y)

    def at(self, flow, dense, t):
        return dense

    def why_failed(self, flow, t, y):
        """Return BLOW_UP if the layer is finite for shorter tokens: those that it maps now overflow."""
        short = jax.tree.map(lambda leaf: leaf / jnp.maximum(jnp.abs(leaf).max(), 1.0), y)
        return jnp.where(finite(flow.layer(t, short, self.h)[0]), BLOW_UP, FAILED), t

    def fault(self, flow, t, y):
        return (
            f"layer {round(t / float(self.h))} gives NaN: check that functions of time such as A(t) are finite, and that the "
            "scores do not overflow double precision"
        )
