"""Runge–Kutta methods by name."""

import dataclasses
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._shown import shown
from .._xla import on_cpu
from ..flows import is_random
from ..states import AbstractDensity
from ..stop_rule import AbstractStopRule
from .base import AbstractMethod
from .langevin import Langevin
from .layers import Layers
from .runge_kutta import RungeKutta
from .stages import HERMITE


class Euler(diffrax.AbstractERK):
    """Euler's method with a Butcher tableau, which Diffrax's own Euler does not have (first same as last)."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.ones(1),), b_sol=np.array([1.0, 0.0]), b_error=np.zeros(2), c=np.ones(1)
    )
    interpolation_cls: ClassVar[Any] = HERMITE

    def order(self, terms):
        return 1


RUNGE_KUTTA = {
    "euler": RungeKutta(Euler(), 1),
    "heun": RungeKutta(diffrax.Heun(), 2),
    "bosh3": RungeKutta(diffrax.Bosh3(), 3),
    "dopri5": RungeKutta(diffrax.Dopri5(), 5),
    "tsit5": RungeKutta(diffrax.Tsit5(), 5),
    "lawson": RungeKutta(diffrax.Tsit5(), 5, interpolant=False, decaying=True),
    "dopri8": RungeKutta(diffrax.Dopri8(), 8, interpolant=False),
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


def method_name(method: AbstractMethod) -> str:
    """Return the name under which results record a method: that of its class, if it has no other."""
    if isinstance(method, Langevin):
        return method.scheme
    if isinstance(method, RungeKutta):
        alike = lambda known: (type(known.solver), known.decaying) == (type(method.solver), method.decaying)  # noqa: E731
        return next((name for name, known in RUNGE_KUTTA.items() if alike(known)), type(method.solver).__name__)
    return type(method).__name__


def settings_of(
    method: AbstractMethod,
    stop_when: AbstractStopRule | None,
    t1: Array,
    tolerances: tuple[Array, Array],
    max_steps: int,
) -> dict[str, Any]:
    """Return the settings of a run that results record, as a tree of arrays: those that its method uses."""
    rule = eqx.filter(stop_when, eqx.is_array)  # without functions, which jit does not return
    if isinstance(method, Layers):
        return {"depth": jnp.round(t1 / method.h).astype(int), "step": method.h, "stop_when": rule}
    common = {"t1": t1, "max_steps": jnp.asarray(max_steps), "stop_when": rule}
    if isinstance(method, Langevin):
        return common | {"dt": method.dt, "key": jax.random.key_data(method.key)}
    fixed = method.dt if isinstance(method, RungeKutta) else None
    return common | dict(zip(("rtol", "atol"), tolerances, strict=True)) | {"dt": fixed}


def with_unrolled_stages(method: AbstractMethod) -> AbstractMethod:
    """Return the method with its stages unrolled instead of in a loop, if it has stages and runs on a CPU."""
    if not isinstance(method, RungeKutta) or method.decaying or not on_cpu():
        return method
    return dataclasses.replace(method, unrolled=True)
