"""Times of a run as text."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trajectory import Event, Trajectory


def moment_text(time: float, log_unit: float = 0.0, log_time: float | None = None, digits: int = 6) -> str:
    """Return a time as "t = 12.5", or as "log10 t = 846.1" if the unit of time is not 1.

    Args:
        time: in the unit of the run.
        log_unit: logarithm of that unit.
        log_time: logarithm of time in units of 1, if known; `time` may have underflowed to 0.
        digits: significant digits.
    """
    if log_unit == 0:
        return f"t = {time:.{digits}g}"
    if log_time is None and time <= 0:
        return "t = 0"
    exponent = math.log(time) + log_unit if log_time is None else log_time
    return f"log10 t = {exponent / math.log(10):.{digits}g}"


def event_text(traj: "Trajectory", event: "Event", digits: int = 6) -> str:
    """Return an event with its time, as "merge at t = 3.2"."""
    log_time = event.detail.get("log_time")
    return f"{event.kind.replace('_', ' ')} at {moment_text(event.time, traj.log_time_unit, log_time, digits)}"
