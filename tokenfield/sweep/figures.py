"""Figures of sweeps: heat maps with the theoretical curve, slices, small multiples."""

import itertools
import re
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from .._shown import shown
from ..plotting.style import GRAY, INK, PALETTE, WIDTH, Sheet, only_axes, styled, write_title
from . import predicted
from .result import SweepResult

MANY = 8  # an axis of at least this many values becomes a side of a heat map
COLORS = "viridis"
OVER = [patheffects.withStroke(linewidth=3, foreground="white")]
NAMES = {
    "beta": r"$\beta$",
    "kappa": r"$\kappa$",
    "gamma": r"$\gamma = \beta/\log n$",
    "n": "$n$",
    "d": "$d$",
    "time": "$t$",
}
MOST_PANELS = 12
MOST_LETTERS = 100  # maximum number of characters in a row of the legend
INFINITY = float("inf")


@styled
def plot_sweep(found: SweepResult, name: str) -> Sheet:
    """Draw one quantity of a sweep, averaged over repeats.

    Quantities saved over time, or over two long axes, are heat maps; others are curves, with a band of one standard
    deviation over repeats. Further axes become small multiples on one scale. If the plan names a theory, it is drawn over
    the values. Repeats without a value are left out of the mean; open marks show where.

    Example:
        >>> import tokenfield as tkf
        >>> run = {"t1": 4.0, "tokens": {"n": 8, "d": 3}}
        >>> found = tkf.sweep({"run": run, "axes": {"beta": [1.0, 2.0]}, "record": {"r": "order_parameter"}})
        >>> plot_sweep(found, "r").savefig("order.png")
    """
    plan = found.plan
    across, up, color, panels = _roles(found, name)
    every = list(itertools.product(*(plan.axes[axis].expanded() for axis in panels)))
    points = [dict(zip(panels, point, strict=True)) for point in every[:MOST_PANELS]]
    columns = min(3, len(points)) if up else min(2, len(points))
    rows = -(-len(points) // columns)
    sheet = Sheet(WIDTH, 0.5 + rows * (2.4 if columns > 1 else 3.2))
    axes = np.atleast_1d(sheet.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)).ravel()
    limits = _limits(found, name, points)
    mesh = None
    for k, (ax, here) in enumerate(zip(axes, points, strict=False)):
        if up:
            mesh = _heat_map(ax, found, name, here, across, up, limits)
        else:
            _curves(ax, found, name, here, across, color)
        write_title(
            ax,
            _lines([_text(axis, value) for axis, value in here.items()], 84 // columns),
            "abcdefghijkl"[k] if len(points) > 1 else "",
        )
        ax.tick_params(labelbottom=k + columns >= len(points))
        if k + columns >= len(points):
            ax.set_xlabel(_label(across))
        if k % columns == 0:
            ax.set_ylabel(_label(up) if up else fill(found.dataset[name].attrs["long_name"], 32))
    for ax in axes[len(points) :]:
        ax.set_visible(False)
    if mesh is not None:
        sheet.colorbar(
            mesh, ax=list(axes), label=fill(found.dataset[name].attrs["long_name"], 28), shrink=0.9, aspect=30
        )
    entries = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    notes = _notes(found, name, points, len(every), across, up)
    if color and (
        without := [text for kind in plan.axes[color].expanded() if (text := _text(color, kind)) not in entries]
    ):
        notes.append(f"No value: {', '.join(without)}.")
    if entries or notes:
        sheet.legend(
            entries.values(),
            entries.keys(),
            loc="outside lower center",
            ncols=_columns(list(entries)),
            title=_lines(notes, MOST_LETTERS, " ") or None,
            title_fontsize=8,
        )
    return sheet


@styled
def draw_sweep(found: SweepResult, name: str, ax: Axes) -> Axes:
    """Draw one quantity of a sweep into the user's axes, like `plot_sweep`; raise ValueError if it has several panels."""
    only_axes(ax)
    across, up, color, panels = _roles(found, name)
    several = [axis for axis in panels if len(found.plan.axes[axis].expanded()) > 1]
    if several:
        raise ValueError(f"ax: this sweep has a panel for each value of {', '.join(several)}: use plot() without ax")
    here, label = {axis: found.plan.axes[axis].expanded()[0] for axis in panels}, found.dataset[name].attrs["long_name"]
    if up:
        mesh = _heat_map(ax, found, name, here, across, up, _limits(found, name, [here]))
        ax.figure.colorbar(mesh, ax=ax, label=fill(label, 28))
    else:
        _curves(ax, found, name, here, across, color)
    ax.set(xlabel=_label(across), ylabel=_label(up) if up else fill(label, 32))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="best")
    return ax


def _roles(found: SweepResult, name: str) -> tuple[str, str | None, str | None, list[str]]:
    """Return which axis is horizontal, which vertical (for a heat map), which is shown by color, and which make panels."""
    plan = found.plan
    if name not in plan.record:
        raise ValueError(f"name must be one of {', '.join(plan.record)}, got {shown(name)}")
    numeric = [a for a in plan.axes if found.dataset[a].dtype.kind in "if" and found.dataset.sizes[a] > 1]
    long = sorted((a for a in numeric if found.dataset.sizes[a] >= MANY), key=lambda a: -found.dataset.sizes[a])
    time = f"time_{name}" if plan.record[name].times is not None else None
    if time and long:
        across, up, color = time, long[0], None
    elif len(long) >= 2:
        across, up, color = long[0], long[1], None
    else:
        most = max(plan.axes, key=lambda a: (a in numeric, found.dataset.sizes[a]))
        across, up = time or most, None
        others = [a for a in plan.axes if a != across]
        color = next((a for a in reversed(others) if 1 < found.dataset.sizes[a] <= len(PALETTE)), None)
    return across, up, color, [a for a in plan.axes if a not in (across, up, color)]


def _label(axis: str) -> str:
    axis = "time" if axis.startswith("time_") else axis
    return NAMES.get(axis, axis)


def _text(axis: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return f"{_label(axis)} = {str(value).lower()}"
    return f"{_label(axis)} = {value:g}" if isinstance(value, (int, float)) else str(value)


def _letters(text: str) -> int:
    """Return the approximate width of a text in characters: a mathematical symbol counts as one."""
    return len(re.sub(r"\\\w+", "x", text).replace("$", ""))


def _lines(parts: Sequence[str], width: int, between: str = ", ") -> str:
    """Join parts into lines of at most a given width, without breaking a part."""
    lines: list[str] = []
    for part in parts:
        if lines and _letters(lines[-1] + between + part) <= width:
            lines[-1] += between + part
        else:
            lines.append(part)
    return (between.rstrip() + "\n").join(lines)


def _columns(labels: list[str]) -> int:
    """Return as many columns of the legend as fit, with rows of about equal length."""
    if not labels:
        return 1
    fit = max(1, min(len(labels), MOST_LETTERS // (max(map(_letters, labels)) + 6)))
    return -(-len(labels) // -(-len(labels) // fit))


def _notes(
    found: SweepResult, name: str, points: list[dict[str, Any]], panels: int, across: str, up: str | None
) -> list[str]:
    """Return notes about the numbers that are drawn."""
    plan, notes = found.plan, []
    parts = [found.dataset[name].sel(here) for here in points]
    there = np.concatenate([part.notnull().sum("repeat").values.ravel() for part in parts])
    if plan.repeats > 1:
        band = "bar" if _kinds(found, across) else "band"
        least, most = _range(found, name)
        cut = f", cut to [{least:g}, {most:g}]" if np.isfinite([least, most]).all() else ""
        notes.append(f"Mean over {plan.repeats} repeats" + ("." if up else f"; {band}: ± one standard deviation{cut}."))
    lacking = "the event did not happen in" if plan.record[name].event else "there is no value in"
    if ((there > 0) & (there < plan.repeats)).any():
        where = "Where" if up else "Open marks:"
        notes.append(f"{where} {lacking} some repeats{',' if up else ';'} the mean is over the others.")
    if (there == 0).any():
        of = "any repeat" if plan.repeats > 1 else "the run"
        notes.append(f"{'Gray' if up else 'No mark'}: {lacking} {of}.")
    if panels > len(points):
        notes.append(f"The first {len(points)} of {panels} panels are drawn.")
    return notes


def _limits(found: SweepResult, name: str, points: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the ends of the color scale that all panels share."""
    if _range(found, name) == (0.0, 1.0):
        return 0.0, 1.0
    mean = found.mean(name)
    values = np.concatenate([mean.sel(here).values.ravel() for here in points])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def _range(found: SweepResult, name: str) -> tuple[float, float]:
    """Return the range of a quantity."""
    quantity = found.plan.record[name]
    return (0.0, INFINITY) if quantity.event else quantity.labels.range


def _kinds(found: SweepResult, axis: str) -> bool:
    """Return whether an axis has names instead of numbers."""
    return found.dataset[axis].dtype.kind not in "iuf"


def _logarithmic(values: np.ndarray) -> bool:
    """Return whether values are spaced logarithmically."""
    if len(values) < 3 or values.min() <= 0:
        return False
    return np.allclose(np.diff(np.log(values)), np.log(values[1] / values[0]))


def _edges(values: np.ndarray) -> np.ndarray:
    """Return the edges of the cells around values: midpoints on the scale of the axis."""
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    if _logarithmic(values):
        return np.exp(_halfway(np.log(values)))
    return _halfway(values)


def _halfway(values: np.ndarray) -> np.ndarray:
    middle = (values[1:] + values[:-1]) / 2
    return np.array([2 * values[0] - middle[0], *middle, 2 * values[-1] - middle[-1]])


def _heat_map(
    ax: Axes,
    found: SweepResult,
    name: str,
    here: dict[str, Any],
    across: str,
    up: str,
    limits: tuple[float, float],
) -> Any:
    mean = found.mean(name).sel(here).transpose(up, across).sortby([up, across])
    x, y = mean[across].values.astype(float), mean[up].values.astype(float)
    ax.set_facecolor(GRAY)
    mesh = ax.pcolormesh(
        _edges(x), _edges(y), mean.values, cmap=COLORS, vmin=limits[0], vmax=limits[1], rasterized=True
    )
    for along, values in (("x", x), ("y", y)):
        if _logarithmic(values):
            getattr(ax, f"set_{along}scale")("log")
    timed = across.startswith("time_") and len(x) > 1
    over = _over_map(found, name, here, across, up)
    if over is not None:
        *line, text = over
        ax.plot(*line, color="#D55E00", lw=1.8, path_effects=OVER, label=text)
    ax.set_xlim(*((x[0], x[-1]) if timed else _edges(x)[[0, -1]]))
    ax.set_ylim(*_edges(y)[[0, -1]])
    return mesh


def _over_map(
    found: SweepResult, name: str, here: dict[str, Any], across: str, up: str
) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Return the theory's curve over a heat map: its horizontal and vertical values, and its label; None if there is none."""
    plan, quantity = found.plan, found.plan.record[name]
    if across.startswith("time_"):
        if quantity.observable != "fraction_above":
            return None
        times = predicted.aligned_times(plan, here, up, quantity.options.get("threshold", 0.999))
        return None if times is None else (*_sorted(plan, up, times)[::-1], "theory: equiangular tokens")
    for axis, other in ((across, up), (up, across)):
        places = predicted.thresholds(plan, here, axis, other)
        if places is not None:
            along, places = _sorted(plan, other, places)
            line = (places, along) if axis == across else (along, places)
            return (*line, f"theory: critical {_label(axis).partition(' = ')[0].rstrip('$')}$")
    return None


def _sorted(plan: Any, axis: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of an axis in rising order, and numbers along it."""
    values = np.array(plan.axes[axis].expanded(), float)
    order = np.argsort(values)
    return values[order], numbers[order]


def _curves(ax: Axes, found: SweepResult, name: str, here: dict[str, Any], across: str, color: str | None) -> None:
    plan, values = found.plan, found.dataset[name].sel(here)
    x, timed, kinds = values[across].values, across.startswith("time_"), _kinds(found, across)
    shades = plan.axes[color].expanded() if color else [None]
    order = np.arange(len(x)) if kinds else np.argsort(x)
    x = order.astype(float) if kinds else x[order]
    least, most = _range(found, name)
    places: dict[float, Line2D] = {}
    for k, level in enumerate(shades):
        point = {**here, color: level} if color else here
        part = (values.sel({color: level}) if color else values).transpose("repeat", across).values[:, order]
        there = (~np.isnan(part)).sum(0)
        if not there.any():
            continue
        mean, spread = np.full((2, len(x)), np.nan)
        mean[there > 0], spread[there > 0] = (of(part[:, there > 0], axis=0) for of in (np.nanmean, np.nanstd))
        shade = PALETTE[k % len(PALETTE)]
        text = _text(color, level) if color else "mean" if plan.repeats > 1 else "one run"
        at = x + (k - (len(shades) - 1) / 2) * 0.5 / len(shades) if kinds else x
        theory = _theory(plan, point, name, across, x)
        if theory is not None:
            neutral = shade if color else INK
            look: dict[str, Any] = {"ls": "", "marker": "_", "ms": 12, "mew": 1.2} if kinds else {"ls": "-", "lw": 1.2}
            ax.plot(at, theory if timed else theory[order], color=neutral, **look)
            ax.plot([], [], color=INK, label="theory (dashes)" if kinds else "theory (lines)", **look)
        marks = {"marker": "o", "ms": 3.5} if len(x) <= 64 and (theory is not None or not timed) else {}
        ax.plot(at, mean, color=shade, label=text, ls="" if theory is not None or kinds else "-", **marks)
        if (some := (there > 0) & (there < plan.repeats)).any():
            ax.plot(at[some], mean[some], ls="", marker="o", ms=3.5, mfc="white", mec=shade, zorder=3)
        if plan.repeats > 1:
            low, high = (np.clip(mean + sign * spread, least, most) for sign in (-1, 1))
            if kinds:
                ax.vlines(at, low, high, color=shade, lw=1.2, alpha=0.5)
            else:
                ax.fill_between(x, low, high, color=shade, alpha=0.2, lw=0)
        place = None if timed or kinds else predicted.threshold(plan, point, across)
        if place is not None and place not in places:
            places[place] = ax.axvline(place, color=shade, ls="--", lw=1.2, zorder=0)
    if places:
        ax.plot([], [], color=INK, ls="--", lw=1.2, label="theory: threshold")
    if len(places) == 1:  # the same for all colors
        next(iter(places.values())).set_color(INK)
    if kinds:
        ax.set_xticks(x, [_kind(value) for value in values[across].values])
        ax.set_xlim(-0.5, len(x) - 0.5)
    else:
        ax.update_datalim(np.column_stack([x, np.zeros(len(x))]), updatey=False)  # include points without a value
        ax.set_xscale("log" if _logarithmic(x) else "linear")


def _kind(value: Any) -> str:
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


def _theory(plan: Any, point: dict[str, Any], name: str, across: str, x: np.ndarray) -> np.ndarray | None:
    """Return the theory's curve for a quantity along an axis."""
    observable = plan.record[name].observable
    if not across.startswith("time_"):
        return predicted.curve(plan, point, across, observable)
    return predicted.cosine_curve(plan, point, x) if observable == "mean_cosine" else None
