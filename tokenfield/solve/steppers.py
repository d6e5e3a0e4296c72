"""The Runge–Kutta methods on offer: Diffrax's, by name, with the order that each one claims."""

from typing import Any, NamedTuple

import diffrax

from .lawson import Lawson


class Stepper(NamedTuple):
    """A Diffrax solver (or one that offers the same `init`, `step` and `interpolation_cls`), its order, and whether its
    interpolant is as good as its steps."""

    solver: Any
    order: int
    adaptive: bool
    interpolates: bool


STEPPERS: dict[str, Stepper] = {
    "euler": Stepper(diffrax.Euler(), 1, adaptive=False, interpolates=True),
    "heun": Stepper(diffrax.Heun(), 2, adaptive=True, interpolates=True),
    "bosh3": Stepper(diffrax.Bosh3(), 3, adaptive=True, interpolates=True),
    "dopri5": Stepper(diffrax.Dopri5(), 5, adaptive=True, interpolates=True),
    "tsit5": Stepper(diffrax.Tsit5(), 5, adaptive=True, interpolates=True),
    "lawson": Stepper(Lawson(), 5, adaptive=True, interpolates=False),
    "dopri8": Stepper(diffrax.Dopri8(), 8, adaptive=True, interpolates=False),
}


def stepper(method: str) -> Stepper:
    """The stepper of that name."""
    if method not in STEPPERS:
        plain = ", ".join(name for name in STEPPERS if name != "lawson")
        raise ValueError(
            f"method must be one of {plain}, or for a single run of tokens coarsen, or for densities lawson, got {method!r}"
        )
    return STEPPERS[method]
