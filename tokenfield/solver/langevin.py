"""Runs with noise: fixed steps of drift and random kicks, with a retraction after each step."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from ..flows import AbstractNoisyFlow
from .base import (
    FAILED,
    FINISHED,
    RUNNING,
    UNRESOLVED,
    AbstractMethod,
    Carry,
    Settings,
    choose,
    finite,
    new_carry,
    next_target,
)

STEPS_PER_RATE = 20  # default number of steps per time scale of the fastest rate
FEWEST_STEPS = 100  # default minimum number of steps of a run


class Grid(NamedTuple):
    """Equal steps between two times at which a step must end; `k` of `total` have been taken."""

    begin: Float[Array, ""]
    end: Float[Array, ""]
    k: Int[Array, ""]
    total: Int[Array, ""]


class Langevin(AbstractMethod):
    """`dy = velocity dt + noise` in steps of at most dt, each with its own random key.

    The key of a step depends only on the number of the step, so results do not depend on where a run is interrupted.

    Args:
        scheme: "heun" (half a kick, a Heun step of the drift, half a kick: weak order 2 if the kicks are exact, as for
            `SphereNoise` and `EuclideanNoise`, else 1) or "euler" (projected Euler–Maruyama, weak order 1).
        dt: the largest step size. Steps between two save times are equal.
        key: the random key of the run.
    """

    scheme: str = eqx.field(static=True)
    dt: Float[Array, "*members"]
    key: Key[Array, "*members"]
    interpolates: ClassVar[bool] = False
    random: ClassVar[bool] = True
    discrete: ClassVar[bool] = False

    @property
    def name(self):
        return self.scheme

    def recorded(self, t1, rtol, atol, max_steps):
        return {"t1": t1, "dt": self.dt, "key": jax.random.key_data(self.key), "max_steps": max_steps}

    @property
    def fixed_step(self):
        return self.dt

    def check(self, flow, t1, save_at):
        pass

    def for_derivatives(self):
        return self

    @property
    def continuous(self):
        return False

    def init(self, flow, settings, t, y):
        grid = self._grid(settings, t)
        return new_carry(t, grid.end, flow.retract(y), grid)

    def step(self, flow, settings, carry):
        grid: Grid = carry.memory
        h = (grid.end - grid.begin) / grid.total
        t = grid.begin + grid.k * h
        scheme = SCHEMES[self.scheme]
        keys = jax.random.split(jax.random.fold_in(self.key, carry.steps), scheme.kicks)
        y = scheme.step(flow, t, jnp.minimum(t + h, settings.t_last), h, flow.scattered(carry.y), keys)
        y = flow.gathered(y)
        ok, last = finite(y), grid.k + 1 >= grid.total
        t = jnp.where(last, grid.end, t + h)
        further = grid._replace(k=grid.k + 1)
        # At the end the grid stays: the step of 0 that would follow has no derivative, and under vmap other members go on.
        grid = choose(last & (grid.end < settings.t1), self._grid(settings, grid.end), further)
        status = jnp.where(t >= settings.t1, FINISHED, RUNNING)
        status = jnp.where(flow.limits.unresolved(jax.lax.stop_gradient(y)), UNRESOLVED, status)
        status = jnp.where(ok, status, FAILED).astype(int)
        t, y = jnp.where(ok, t, carry.t), choose(ok, y, carry.y)
        return Carry(t, grid.end, y, grid, status, carry.steps + ok, carry.rejected), y

    def no_step(self, y):
        return jax.tree.map(jnp.zeros_like, y)

    def at(self, flow, dense, t):
        return dense

    def why_failed(self, flow, t, y):
        return jnp.array(FAILED), t  # fixed steps do not tell a blow-up from a step that is too large

    def fault(self, flow, t, y):
        return f"tokens are no longer finite after t = {t:.6g}: they blow up, or dt = {float(self.dt):.3g} is too large"

    def _grid(self, settings: Settings, t: Array) -> Grid:
        end = next_target(settings, t)
        return Grid(t, end, jnp.zeros((), int), steps_between(t, end, self.dt).astype(int))


def steps_between(begin: Any, end: Any, dt: Any) -> Any:
    """Return the number of equal steps of at most dt between two times, as a float, which does not overflow."""
    return jnp.maximum(jnp.ceil((end - begin) / dt * (1 - 1e-12)), 1.0)


def default_dt(flow: AbstractNoisyFlow, state: Any, t1: Any) -> Array:
    """Return a twentieth of the time scale of the flow's fastest rate, at most a hundredth of t1."""
    dt = jnp.minimum(t1 / FEWEST_STEPS, 1 / (STEPS_PER_RATE * jnp.maximum(flow.rate(state), 1e-300)))
    return jnp.maximum(dt, jnp.finfo(float).tiny)  # XLA flushes subnormal numbers to 0


class Scheme(NamedTuple):
    """`step(flow, t, t_end, h, y, keys)` from t to t + h; `t_end` is the last time at which to evaluate the drift."""

    kicks: int
    step: Any


def euler_step(flow: AbstractNoisyFlow, t, t_end, h, y, keys):
    """Take a projected Euler–Maruyama step, `y <- retract(y + h velocity + kick)`."""
    velocity = eqx.filter_checkpoint(flow.velocity)
    return flow.retract(plus(y, (h, velocity(t, y)), (1.0, flow.kick(keys[0], t, y, h))))


def heun_step(flow: AbstractNoisyFlow, t, t_end, h, y, keys):
    """Take half a kick, a Heun step of the drift, and half a kick (Strang splitting)."""
    y = flow.retract(plus(y, (1.0, flow.kick(keys[0], t, y, h / 2))))
    velocity = eqx.filter_checkpoint(flow.velocity)
    first = velocity(t, y)
    second = velocity(t_end, flow.retract(plus(y, (h, first))))
    y = flow.retract(plus(y, (h / 2, first), (h / 2, second)))
    return flow.retract(plus(y, (1.0, flow.kick(keys[1], t_end, y, h / 2))))


SCHEMES = {"heun": Scheme(2, heun_step), "euler": Scheme(1, euler_step)}


def plus(y: Any, *terms: tuple[Any, Any]) -> Any:
    """Return `y + sum_k c_k v_k` for trees."""
    for c, v in terms:
        y = jax.tree.map(lambda a, b, c=c: a + c * b, y, v)
    return y
