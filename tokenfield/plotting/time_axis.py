"""Time axes: label, limits and scale (logarithmic if the times are), and events as dashed lines."""

import math

import numpy as np
from matplotlib.axes import Axes

from ..results import Event, Trajectory
from ..results.moments import moment_text
from .style import INK
from .ticks import even_time_ticks, log_time_ticks

LONG = 1e9  # longer times are written as their logarithms
NAME_WIDTH = 0.06  # width of the name of an event, written upwards, as a fraction of the panel


def draw_time_axis(traj: Trajectory, ax: Axes, times: np.ndarray, label: bool = True) -> None:
    """Set limits, scale and label of a horizontal time axis; they are the same for all panels of a run with the same end time."""
    times = traj.times[traj.times <= times[-1]] if len(times) > 1 else times
    logarithmic = is_logarithmic(times)
    if logarithmic:
        ax.set_xlim(times[times > 0][0], times[-1])  # before the scale, whose own limits could overflow
        ax.set_xscale("log", nonpositive="mask")
    elif times[-1] > times[0]:
        ax.set_xlim(times[0], times[-1])
    axis_label = "layer" if counts_layers(traj) else "time $t$"
    if logarithmic and (traj.log_time_unit != 0 or times[-1] > LONG):
        axis_label = log_time_ticks(ax, traj.log_time_unit)
    elif traj.log_time_unit != 0:
        axis_label = even_time_ticks(ax, traj.log_time_unit)
    if label:
        ax.set_xlabel(axis_label)


def is_logarithmic(times: np.ndarray) -> bool:
    """Return True if the saved times accumulate near 0, as on a logarithmic grid."""
    positive = times[times > 0]
    return len(positive) >= 8 and bool(positive[-1] > 20 * np.median(positive))


def draw_events(traj: Trajectory, ax: Axes, named: bool = True) -> None:
    """Draw a dashed vertical line at each event, with its name (if `named`) where it covers no curve of the panel."""
    crowded = len(traj.events) > 4
    for event in traj.events:
        if crowded and event.kind == "merge":
            continue
        ax.axvline(event.time, color=INK, lw=0.9, ls=(0, (3, 2)), zorder=4, clip_on=False)
        left, right = ax.get_xlim()
        late = event.time > (left + right) / 2
        options = {"rotation": 90, "ha": "right" if late else "left", "va": "center", "fontsize": 7.5}
        box = {"boxstyle": "square,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
        if not named:
            continue
        place, shift = (event.time, _free_height(ax, event.time, late)), (-3 if late else 3, 0)
        blend = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        ax.annotate(event_name(event), place, shift, bbox=box, zorder=5, **blend, **options)


def _free_height(ax: Axes, time: float, late: bool) -> float:
    """Return the height (0 bottom, 1 top) at which a name beside an event is farthest from all curves."""
    place = ax.transAxes.inverted()
    edge = place.transform(ax.transData.transform((time, ax.get_ylim()[0])))[0]
    low, high = (edge - NAME_WIDTH, edge - 0.005) if late else (edge + 0.005, edge + NAME_WIDTH)
    passed = []
    for line in ax.lines:
        x, y = np.array(line.get_data(), float)
        if len(x) > 2 and line.get_linestyle() == "-":
            at = place.transform(ax.transData.transform(np.stack([x, y], 1)))
            at = at[np.isfinite(at).all(axis=1)]
            passed.append(np.interp(np.linspace(low, high, 9), at[:, 0], at[:, 1]))
    heights = np.concatenate([np.ravel(each) for each in passed]) if passed else np.zeros(1)
    return max((0.22, 0.42, 0.62), key=lambda height: float(np.abs(heights - height).min()))


def event_name(event: Event) -> str:
    """Return the kind of an event as text."""
    return event.kind.replace("_", " ")


def counts_layers(traj: Trajectory) -> bool:
    """Return True if a unit of time is a layer."""
    return traj.config.get("step") == 1 and traj.log_time_unit == 0


def time_labels(traj: Trajectory, times: np.ndarray, log_times: np.ndarray) -> tuple[str, list[str]]:
    """Return "t = ", "log10 t = " or "layer ", and the text after it for each time, for a slider."""
    if traj.log_time_unit == 0:
        return "layer " if counts_layers(traj) else "t = ", [f"{time:.4g}" for time in times]
    return "log<sub>10</sub> t = ", [f"{each / math.log(10):.6g}".replace("-inf", "−∞") for each in log_times]


def time_text(traj: Trajectory, time: float, log_time: float | None = None) -> str:
    """Return a time as text, e.g. "t = 12.5", "log10 t = 846.1" or "layer 3"."""
    if counts_layers(traj):
        return f"layer {time:.3g}"
    known = None if log_time is None or not math.isfinite(log_time) else log_time
    label = moment_text(time, traj.log_time_unit, known, digits=4)
    name, _, value = label.partition(" = ")
    return ("$t$" if name == "t" else r"$\log_{10} t$") + f" = {value}"
