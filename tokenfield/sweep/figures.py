"""Pictures of sweeps: heat maps with the theory's curve over them, slices, small multiples."""

import itertools
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes

from ..plotting.style import GREY, INK, PALETTE, WIDTH, Sheet, styled, write_title
from . import predicted
from .result import SweepResult

MANY = 8  # values from which on an axis is drawn as a side of a heat map
COLOURS = "viridis"
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


@styled
def plot_sweep(found: SweepResult, name: str) -> Sheet:
    """One quantity of a sweep, averaged over repeats.

    Quantities kept over time, or over two long axes, are heat maps; others are curves, with a band of one standard
    deviation over repeats. Further axes are small multiples. Theory is drawn over it where the plan names it.

    Example:
        >>> import tokenfield as tkf
        >>> run = {"t1": 4.0, "tokens": {"n": 8, "d": 3}}
        >>> found = tkf.sweep({"run": run, "axes": {"beta": [1.0, 2.0]}, "record": {"r": "order_parameter"}})
        >>> plot_sweep(found, "r").savefig("order.png")
    """
    plan = found.plan
    if name not in plan.record:
        raise ValueError(f"name must be one of {', '.join(plan.record)}, got {name!r}")
    across, up, colour, panels = _roles(found, name)
    points = list(itertools.product(*(plan.axes[axis].expanded() for axis in panels)))[:MOST_PANELS]
    columns = min(3, len(points)) if up else min(2, len(points))
    rows = -(-len(points) // columns)
    sheet = Sheet(WIDTH, 0.5 + rows * (2.4 if columns > 1 else 3.2))
    axes = np.atleast_1d(sheet.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)).ravel()
    mesh = None
    for k, (ax, point) in enumerate(zip(axes, points, strict=False)):
        here = dict(zip(panels, point, strict=True))
        if up:
            mesh = _heat_map(ax, found, name, here, across, up)
        else:
            _curves(ax, found, name, here, across, colour)
        write_title(
            ax,
            ", ".join(_text(axis, value) for axis, value in here.items()),
            "abcdefghijkl"[k] if len(points) > 1 else "",
        )
        ax.tick_params(labelbottom=k + columns >= len(points))
        if k + columns >= len(points):
            ax.set_xlabel(_label(across))
        if k % columns == 0:
            ax.set_ylabel(_label(up) if up else found.dataset[name].attrs["long_name"])
    for ax in axes[len(points) :]:
        ax.set_visible(False)
    if mesh is not None:
        sheet.colorbar(
            mesh, ax=list(axes), label=fill(found.dataset[name].attrs["long_name"], 28), shrink=0.9, aspect=30
        )
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        sheet.legend(handles, labels, loc="outside lower center", ncols=min(4, len(handles)))
    return sheet


def _roles(found: SweepResult, name: str) -> tuple[str, str | None, str | None, list[str]]:
    """Which axis goes across, which up (for a heat map), which is told by colour, and which make panels."""
    plan = found.plan
    numeric = [a for a in plan.axes if found.dataset[a].dtype.kind in "if" and found.dataset.sizes[a] > 1]
    long = sorted((a for a in numeric if found.dataset.sizes[a] >= MANY), key=lambda a: -found.dataset.sizes[a])
    time = f"time_{name}" if plan.record[name].times is not None else None
    if time and long:
        across, up, colour = time, long[0], None
    elif len(long) >= 2:
        across, up, colour = long[0], long[1], None
    else:
        most = max(plan.axes, key=lambda a: (a in numeric, found.dataset.sizes[a]))
        across, up = time or most, None
        others = [a for a in plan.axes if a != across]
        colour = next((a for a in reversed(others) if 1 < found.dataset.sizes[a] <= len(PALETTE)), None)
    return across, up, colour, [a for a in plan.axes if a not in (across, up, colour)]


def _label(axis: str) -> str:
    axis = "time" if axis.startswith("time_") else axis
    return NAMES.get(axis, axis)


def _scale(ax: Axes, values: np.ndarray, along: str) -> None:
    """Logarithmic where the values are spaced so."""
    if len(values) > 2 and values.min() > 0 and np.allclose(np.diff(np.log(values)), np.log(values[1] / values[0])):
        getattr(ax, f"set_{along}scale")("log")


def _heat_map(ax: Axes, found: SweepResult, name: str, here: dict[str, Any], across: str, up: str) -> Any:
    mean = found.mean(name).sel(here).transpose(up, across)
    x, y = mean[across].values.astype(float), mean[up].values.astype(float)
    ax.set_facecolor(GREY)
    bounded = found.plan.record[name].observable in ("fraction_above", "order_parameter", "largest_cluster")
    limits = {"vmin": 0, "vmax": 1} if bounded else {}
    mesh = ax.pcolormesh(x, y, mean.values, cmap=COLOURS, shading="nearest", rasterized=True, **limits)
    _scale(ax, y, "y")
    if not across.startswith("time_"):
        _scale(ax, x, "x")
    quantity = found.plan.record[name]
    if across.startswith("time_") and quantity.observable == "fraction_above":
        times = predicted.aligned_times(found.plan, here, up, quantity.threshold or 0.999)
        if times is not None:
            ax.plot(times, y, color="#D55E00", lw=1.8, path_effects=OVER, label="theory: equiangular tokens")
            ax.set_xlim(x[0], x[-1])
    return mesh


def _curves(ax: Axes, found: SweepResult, name: str, here: dict[str, Any], across: str, colour: str | None) -> None:
    plan, values = found.plan, found.dataset[name].sel(here)
    x, kinds, timed = (
        values[across].values,
        plan.axes[colour].expanded() if colour else [None],
        across.startswith("time_"),
    )
    places: list[float] = []
    for k, kind in enumerate(kinds):
        point = {**here, colour: kind} if colour else here
        part = values if colour is None else values.sel({colour: kind})
        # The mean time of an event is biased where it did not happen in every repeat, and is left out there.
        whole = plan.record[name].event is not None
        mean, spread = (getattr(part, of)("repeat", skipna=not whole).values for of in ("mean", "std"))
        shade = PALETTE[k % len(PALETTE)]
        text = "mean over repeats" if kind is None else _text(colour or "", kind)
        theory = _theory(plan, point, name, across, x)
        if theory is not None:
            ax.plot(x, theory, color=shade, lw=1.2, label=None if k else "theory (lines)")
        marks = {"marker": "o", "ms": 3.5} if len(x) <= 64 and (theory is not None or not timed) else {}
        ax.plot(x, mean, color=shade, label=text, ls="" if theory is not None else "-", **marks)
        if plan.repeats > 1:
            ax.fill_between(x, mean - spread, mean + spread, color=shade, alpha=0.2, lw=0)
        place = None if timed else predicted.threshold(plan, point, across)
        if place is not None and place not in places:
            ax.axvline(place, color=shade, ls="--", lw=1.2, zorder=0, label=None if k else "theory: threshold")
            places.append(place)
    if len(places) == 1:  # the same for all colours
        next(line for line in ax.lines if line.get_linestyle() == "--").set_color(INK)
    if x.dtype.kind in "if" and not timed:
        _scale(ax, x, "x")


def _text(axis: str, value: Any) -> str:
    return f"{_label(axis)} = {value:g}" if isinstance(value, (int, float)) else str(value)


def _theory(plan: Any, point: dict[str, Any], name: str, across: str, x: np.ndarray) -> np.ndarray | None:
    """The theory's curve for a quantity along an axis."""
    observable = plan.record[name].observable
    if not across.startswith("time_"):
        return predicted.curve(plan, point, across, observable)
    return predicted.cosine_curve(plan, point, x) if observable == "mean_cosine" else None
