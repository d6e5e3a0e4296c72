"""The saved result of one cell."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .plan import Plan, Recorded


class Outcome(NamedTuple):
    """The saved result of one cell: numbers by name, and how they were computed; or the text of its error."""

    values: dict[str, np.ndarray]
    end_time: float
    error: str
    method: str = ""
    reductions: str = ""


def times_of(plan: Plan) -> np.ndarray:
    """Return all times at which a quantity is saved."""
    series = [quantity.times.expanded() for quantity in plan.record.values() if quantity.times is not None]
    return np.unique(np.concatenate(series).astype(float)) if series else np.array([])


def keep(
    plan: Plan, value: Callable[[str, Recorded], Any], events: Sequence[tuple[str | None, float]]
) -> dict[str, np.ndarray]:
    """Return every quantity of the plan: values by the function given, times of events from the list."""
    values = {}
    for name, quantity in plan.record.items():
        if quantity.event is None:
            values[name] = np.asarray(value(name, quantity), float)
        else:
            wanted = quantity.event.replace("-", "_")
            values[name] = np.asarray(next((t for kind, t in events if kind == wanted), float("nan")))
    return values
