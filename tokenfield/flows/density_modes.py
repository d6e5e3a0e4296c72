"""Number of modes of a density: when it must grow, and by which factor."""

from collections.abc import Sequence
from typing import Any

from ..states import AbstractDensity, CircleDensity, SphereDensity, ZonalDensity
from .base import Limits

KINDS = (CircleDensity, SphereDensity, ZonalDensity)
MOST_MODES = {CircleDensity: 2048, ZonalDensity: 1024, SphereDensity: 96}
GROWTH = {CircleDensity: 4, ZonalDensity: 4, SphereDensity: 2}  # factor for modes; each resolution is compiled anew


def with_most_modes(states: Sequence[Any]) -> list[Any]:
    """Return densities with the largest of their numbers of modes; other states unchanged."""
    if not isinstance(states[0], AbstractDensity):
        return list(states)
    modes = max(state.modes for state in states)
    return [state.replaced(state.harmonics.embed(state.coefficients, modes)) for state in states]


def resolution(modes: int) -> float:
    """Return how large the last degrees may be, relative to all of them, before the resolution is increased (`unresolved`).

    The Laplacian multiplies rounding errors by `modes^2`.
    """
    return max(1e-11, 1e-14 * modes**2)


def density_limits(state: AbstractDensity, **others: Any) -> Limits:
    """Return the limits of the flow of a density: where it needs more modes, and others."""
    edge = resolution(state.modes)
    reason = (
        f"the density needs more than {state.modes} modes, the maximum: it tends to Dirac masses. Continue with tokens, "
        "e.g. traj.final.sample(n, seed)"
    )
    return Limits(unresolved=lambda y: state.replaced(y).unresolved(edge), hidden_reason=reason, **others)


def refined(state: Any) -> Any | None:
    """Return a density with more modes, or None at the maximum number, and for any other state."""
    if not isinstance(state, AbstractDensity):
        return None
    modes = min(GROWTH[type(state)] * state.modes, MOST_MODES[type(state)])
    return state.replaced(state.harmonics.embed(state.coefficients, modes)) if modes > state.modes else None
