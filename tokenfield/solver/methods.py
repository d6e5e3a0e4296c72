"""Runge–Kutta methods by name."""

import dataclasses
from typing import Any, ClassVar

import diffrax
import jax.numpy as jnp
import numpy as np

from .._shown import shown
from .._xla import on_cpu
from ..flows import AbstractNoisyFlow, Segment, is_random, segments
from ..flows.layers import layer_flow
from ..states import AbstractDensity
from .base import AbstractMethod
from .langevin import SCHEMES
from .lawson import Lawson
from .runge_kutta import RungeKutta
from .stages import HERMITE, Looped, Unrolled


class Euler(diffrax.AbstractERK):
    """Euler's method with a Butcher tableau, which Diffrax's own Euler does not have (first same as last)."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.ones(1),), b_sol=np.array([1.0, 0.0]), b_error=np.zeros(2), c=np.ones(1)
    )
    interpolation_cls: ClassVar[Any] = HERMITE

    def order(self, terms):
        return 1


RUNGE_KUTTA = {
    "euler": RungeKutta(Looped(Euler()), 1),
    "heun": RungeKutta(Looped(diffrax.Heun()), 2),
    "bosh3": RungeKutta(Looped(diffrax.Bosh3()), 3),
    "dopri5": RungeKutta(Looped(diffrax.Dopri5()), 5),
    "tsit5": RungeKutta(Looped(diffrax.Tsit5()), 5),
    "lawson": RungeKutta(Lawson(), 5, interpolant=False),
    "dopri8": RungeKutta(Looped(diffrax.Dopri8()), 8, interpolant=False),
}
UNCONTROLLED = ("euler",)  # no error estimate, so they need a fixed step


def runge_kutta(name: str, dt: Any = None) -> RungeKutta:
    """Return the Runge–Kutta method of that name, with a fixed step if dt is given."""
    if name not in RUNGE_KUTTA:
        plain = ", ".join(each for each in RUNGE_KUTTA if each != "lawson")
        raise ValueError(
            f"method must be one of {plain}, or for a single run of tokens coarsen, or for densities lawson, got {shown(name)}"
        )
    if dt is None and name in UNCONTROLLED:
        raise ValueError(f"method {shown(name)} has no error control: give a fixed step dt")
    method = RUNGE_KUTTA[name]
    return method if dt is None else dataclasses.replace(method, dt=jnp.asarray(dt))


def plain_method(state: Any, model: Any) -> str:
    """Return the name of the default method: "heun" with noise, "lawson" for densities, otherwise "tsit5"."""
    if is_random(state, model):
        return "heun"
    return "lawson" if isinstance(state, AbstractDensity) else "tsit5"


def checked_method(name: str | None, state: Any, model: Any) -> str:
    """Return the name of the method of a run, `plain_method` by default; raise ValueError if it does not fit the run."""
    if name is None:
        return plain_method(state, model)
    if not isinstance(name, str):
        raise ValueError(
            f"method must be the name of a method here (solve and simulate take objects too), got {shown(name)}"
        )
    if is_random(state, model):
        if name not in SCHEMES:
            raise ValueError(f"method must be one of {', '.join(SCHEMES)} for a model with noise, got {shown(name)}")
    elif name == "lawson" and not isinstance(state, AbstractDensity):
        raise ValueError(f"method 'lawson' is for densities, got {type(state).__name__}")
    return name


def segments_of(method: AbstractMethod, state: Any, model: Any, t1: Any, save_at: Any) -> tuple[Segment, ...]:
    """Return the flows that a method given as an object integrates; raise ValueError if it does not fit the run."""
    if method.discrete:
        parts: tuple[Segment, ...] = (Segment(float("inf"), layer_flow(state, model)),)
    else:
        parts = segments(state, model)
        noisy = isinstance(parts[0].flow, AbstractNoisyFlow)
        if method.random != noisy:
            others = (
                f"one of {', '.join(SCHEMES)} for a model with noise" if noisy else "one without noise for this model"
            )
            raise ValueError(f"method must be {others}, got {type(method).__name__}")
    method.check(parts[0].flow, t1, save_at)
    return parts


def with_unrolled_stages(method: AbstractMethod) -> AbstractMethod:
    """Return the method with its stages unrolled instead of in a loop, if they are in a loop and it runs on a CPU."""
    if isinstance(method, RungeKutta) and isinstance(method.stages, Looped) and on_cpu():
        return dataclasses.replace(method, stages=Unrolled(method.stages.solver))
    return method
