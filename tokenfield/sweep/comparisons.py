"""Compare a sweep with theory at a few points of its grid, if the plan names a theory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..report.story import Comparison
from . import predicted
from .result import SweepResult

MOST_VALUES = 8  # maximum number of values of an axis
MOST_POINTS = 3  # maximum number of points of the other axes


def comparisons(found: SweepResult) -> Iterator[Comparison]:
    """Return predictions and means over repeats: times of alignment, thresholds and curves."""
    plan = found.plan
    if plan.theory is None:
        return
    for name, quantity in plan.record.items():
        for axis in plan.axes:
            if found.dataset[axis].dtype.kind not in "if" or quantity.event is not None:
                continue
            for here in _points(found, axis):
                compared = (_aligned,) if quantity.times is not None else (_threshold, _curve)
                for each in compared:
                    yield from each(found, name, axis, here)


def _aligned(found: SweepResult, name: str, axis: str, here: dict[str, Any]) -> Iterator[Comparison]:
    """Compare the time at which equiangular tokens align with the time at which half of all pairs have aligned."""
    threshold = (found.plan.record[name].model_extra or {}).get("threshold")
    if threshold is None or (times := predicted.aligned_times(found.plan, here, axis, float(threshold))) is None:
        return
    mean = found.mean(name).sel(here)
    for k, place in _chosen(found, axis, here):
        curve = mean.isel({axis: k})
        reached = crossing(curve[f"time_{name}"].values, curve.values, 0.5)
        yield _compared(f"time to alignment at {place}", times[k], reached, 0.1, "after the end of the runs")


def _threshold(found: SweepResult, name: str, axis: str, here: dict[str, Any]) -> Iterator[Comparison]:
    """Compare the predicted transition with the point at which the measured curve is halfway between its ends."""
    place, mean = predicted.threshold(found.plan, here, axis), found.mean(name).sel(here)
    if place is None or not np.isfinite(mean).any():
        return
    level = (float(np.nanmin(mean)) + float(np.nanmax(mean))) / 2
    order = np.argsort(mean[axis].values)
    reached = crossing(mean[axis].values[order].astype(float), mean.values[order], level)
    what = f"transition in {axis_name(axis)}" + "".join(f", {other} = {value_text(v)}" for other, v in here.items())
    yield _compared(what, place, reached, 0.25, "outside the range of the sweep")


def _curve(found: SweepResult, name: str, axis: str, here: dict[str, Any]) -> Iterator[Comparison]:
    """Compare a quantity for which theory has a value at every point of the axis."""
    plan, values, label = found.plan, found.dataset[name].sel(here), str(found.dataset[name].attrs["long_name"])
    curve = predicted.curve(plan, here, axis, plan.record[name].observable)
    if curve is None:
        return
    for k, place in _chosen(found, axis, here):
        expected, spread = float(curve[k]), float(values.isel({axis: k}).std("repeat"))
        measured = float(values.isel({axis: k}).mean("repeat"))
        agrees = abs(measured - expected) <= max(0.1 * abs(expected), 2 * spread, 1e-6)
        remark = f"± {spread:.2g} over repeats" if plan.repeats > 1 else ""
        yield Comparison(f"{label} at {place}", f"{expected:.4g}", f"{measured:.4g}", agrees, remark)


def crossing(x: np.ndarray, y: np.ndarray, level: float) -> float | None:
    """Return the first x at which a curve passes a level, by linear interpolation; None if it does not.

    Example:
        >>> import numpy as np
        >>> crossing(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.2, 1.0]), 0.6)
        1.5
    """
    known = np.isfinite(y)
    x, y = x[known], y[known]
    sides = np.flatnonzero(np.diff(np.signbit(y - level)))
    if not len(sides):
        return None
    k = sides[0]
    return float(x[k] + (level - y[k]) / (y[k + 1] - y[k]) * (x[k + 1] - x[k]))


def _compared(what: str, expected: float, reached: float | None, allowed: float, never: str) -> Comparison:
    if not np.isfinite(expected):
        return Comparison(what, "no formula", "–" if reached is None else f"{reached:.4g}", None)
    if reached is None:
        return Comparison(what, f"{expected:.4g}", "not seen", None, never)
    off = abs(reached - expected) / abs(expected)
    return Comparison(what, f"{expected:.4g}", f"{reached:.4g}", off <= allowed or None, f"{100 * off:.2g} % apart")


def _chosen(found: SweepResult, axis: str, here: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Return a few points of an axis: the index, and the point as text."""
    values = found.plan.axes[axis].expanded()
    others = "".join(f", {axis_name(other)} = {value_text(value)}" for other, value in here.items())
    for k in _spread(len(values), MOST_VALUES):
        yield k, f"{axis_name(axis)} = {value_text(values[k])}{others}"


def _points(found: SweepResult, axis: str) -> list[dict[str, Any]]:
    """Return a few combinations of values of the other axes."""
    points: list[dict[str, Any]] = [{}]
    for other in found.plan.axes:
        if other != axis:
            points = [{**point, other: value} for point in points for value in found.plan.axes[other].expanded()]
    return [points[k] for k in _spread(len(points), MOST_POINTS)]


def _spread(count: int, most: int) -> list[int]:
    """Return at most `most` indices, evenly spread over `count`."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def axis_name(name: str) -> str:
    """Return an axis as text."""
    return "time" if name.startswith("time_") else name


def value_text(value: Any) -> str:
    """Return a value of an axis as text."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
