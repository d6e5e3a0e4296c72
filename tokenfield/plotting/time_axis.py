"""Time axes: label and unit, logarithmic where times are, events as dashed lines."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ..results import Event, Trajectory
from ..results.moments import moment_text
from .style import INK


def draw_time_axis(traj: Trajectory, ax: Axes, times: np.ndarray, label: bool = True) -> None:
    """Limits, scale and label of a horizontal time axis."""
    if label:
        ax.set_xlabel(time_label(traj))
    if is_logarithmic(times):
        ax.set_xscale("log", nonpositive="mask")
        ax.set_xlim(times[times > 0][0], times[-1])
    elif times[-1] > times[0]:
        ax.set_xlim(times[0], times[-1])


def is_logarithmic(times: np.ndarray) -> bool:
    """True when the saved times crowd towards 0, as those of a logarithmic grid do."""
    positive = times[times > 0]
    return len(positive) >= 8 and bool(positive[-1] > 20 * np.median(positive))


def draw_events(traj: Trajectory, ax: Axes, busy: Sequence[float] = ()) -> None:
    """A dashed vertical line at each event, with its name away from the `busy` heights (0 bottom, 1 top)."""
    height = max((0.25, 0.5, 0.75), key=lambda place: min((abs(place - other) for other in busy), default=0))
    crowded = len(traj.events) > 4
    for event in traj.events:
        if crowded and event.kind == "merge":
            continue
        ax.axvline(event.time, color=INK, lw=0.9, ls=(0, (3, 2)), zorder=4, clip_on=False)
        left, right = ax.get_xlim()
        late = event.time > (left + right) / 2
        options = {"rotation": 90, "ha": "right" if late else "left", "va": "center", "fontsize": 7.5}
        box = {"boxstyle": "square,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
        place, shift = (event.time, height), (-3 if late else 3, 0)
        blend = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        ax.annotate(event_name(event), place, shift, bbox=box, zorder=5, **blend, **options)


def event_name(event: Event) -> str:
    """An event in words."""
    return event.kind.replace("_", " ")


def time_unit(traj: Trajectory) -> str:
    """The unit of time for a label, "" for plain time."""
    exponent = traj.log_time_unit
    return "" if exponent == 0 else f"$e^{{{exponent:g}}}$"


def time_label(traj: Trajectory) -> str:
    """The label of a time axis, with the unit; layers are counted where a step is a layer."""
    if traj.config.get("step") == 1 and not time_unit(traj):
        return "layer"
    return f"time $t$ (units of {time_unit(traj)})" if time_unit(traj) else "time $t$"


def time_text(traj: Trajectory, time: float, log_time: float | None = None) -> str:
    """A moment in words, e.g. "t = 12.5", "log10 t = 846.1" or "layer 3"."""
    if time_label(traj) == "layer":
        return f"layer {time:.3g}"
    known = None if log_time is None or not math.isfinite(log_time) else log_time
    words = moment_text(time, traj.log_time_unit, known, digits=4)
    name, _, value = words.partition(" = ")
    return ("$t$" if name == "t" else r"$\log_{10} t$") + f" = {value}"
