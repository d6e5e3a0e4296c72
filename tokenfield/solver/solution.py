"""What `solve` returns."""

from html import escape
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from .._check import has_values
from .._explained import card
from ..flows import AbstractFlow, AbstractRescaledFlow
from .base import REASONS


def row(flow: AbstractFlow, t: Float[Array, ""], y: Any) -> tuple[Any, tuple[Array, Array] | None]:
    """Return what results hold at one time: the state, and for `Rescaled` also `e^{-c} x` and c."""
    return flow.unpack(y), flow.scaled(t, y) if isinstance(flow, AbstractRescaledFlow) else None


@jax.tree_util.register_static
class FunctionName:
    """The name of a function, in place of the function."""

    def __init__(self, function: Any):
        self.__name__ = getattr(function, "__name__", "stopped")
        self.__qualname__ = getattr(function, "__qualname__", type(function).__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionName) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.__name__, self.__qualname__))

    def __call__(self, *arguments: Any) -> Any:
        raise ValueError(f"only the name of {self.__qualname__} was recorded")


def recorded_rule(rule: Any) -> Any:
    """Return a stop rule with its numbers, and with the names of its functions instead of the functions."""
    keep = lambda leaf: leaf if eqx.is_array(leaf) else FunctionName(leaf) if callable(leaf) else None  # noqa: E731
    return jax.tree.map(keep, rule)


class Solution(eqx.Module):
    """States of a run, as a pytree.

    Args:
        times: (m,) the save times; NaN for those after the end of the run.
        states: the state at each of them, its arrays stacked along a leading time axis; NaN after the end. An observable of it
            has one value per time.
        final: the last state: at t1, or where an event ended the run.
        status: how the run ended, see `reason`.
        event_time: the time at which the run ended before t1; infinite if it reached t1. It can be differentiated for a stop;
            its derivative is NaN for a blow-up, a length that reaches 0, and stops of runs with noise or `Layers`.
        stats: numbers of steps taken and rejected.
        log_time_unit: logarithm of the unit of time, as for `Trajectory`.
        method: the name of the method.
        settings: the settings that determine the run besides model and state: the tolerances, t1, the stop rule, ….
        scaled: for `Rescaled`, `e^{-c} x` and c at the save times, and the same at the end; they have no derivative. Otherwise
            None.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN())
        >>> solution = tkf.solve(model, tkf.Equiangular(rho=0.0, n=8), t1=2.0, save_at=[0.0, 1.0, 2.0])
        >>> solution.states.rho, solution.reason
        (Array([0.        , 0.36258719, 0.81634239], dtype=float64), 'finished')
    """

    times: Float[Array, " m"]
    states: Any
    final: Any
    status: Int[Array, ""]
    event_time: Float[Array, ""]
    stats: dict[str, Int[Array, ""]]
    log_time_unit: Float[Array, ""]
    method: str = eqx.field(static=True)
    settings: dict[str, Any]
    scaled: Any = None

    def __repr__(self) -> str:
        if not has_values(self.status, self.event_time, self.times) or self.status.ndim:
            return super().__repr__()  # traced, or several solutions stacked
        when = "" if np.isinf(self.event_time) else f" at t = {float(self.event_time):.6g}"
        count = int(np.isfinite(self.times).sum())
        return f"Solution({self.final!r} at {count} times; {self.reason}{when}; {int(self.stats['steps'])} steps)"

    def _repr_html_(self) -> str:
        if not has_values(self.status, self.event_time, self.times) or self.status.ndim:
            return f"<pre>{escape(repr(self))}</pre>"
        saved = self.times[np.isfinite(self.times)]
        when = "" if np.isinf(self.event_time) else f" at t = {float(self.event_time):.6g}"
        rows = {
            "final": repr(self.final),
            "times": f"t = {saved[0]:.6g} to {saved[-1]:.6g}, {len(saved)} saved" if len(saved) else "none saved",
            "end": f"{self.reason}{when}",
            "method": f"{self.method}, {int(self.stats['steps'])} steps",
        }
        return card("Solution", rows, "solution.final, solution.states, tkf.Trajectory.from_solution(solution, model)")

    @property
    def reason(self) -> str:
        """How the run ended: "finished", "stopped", "blow_up", "vanished", "resolution", "fold", "failed" or "max_steps"."""
        if isinstance(self.status, jax.core.Tracer):
            raise ValueError("reason is not known inside jit, vmap or grad: compare status there")
        if self.status.ndim:
            raise ValueError(
                "reason is that of one run: index the solution, e.g. jax.tree.map(lambda leaf: leaf[0], sol)"
            )
        return REASONS[int(self.status)]
