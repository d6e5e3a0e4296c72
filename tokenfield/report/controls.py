"""Axes, slider and buttons of the interactive plot."""

from typing import Any

import numpy as np

GRID = {"showgrid": True, "gridcolor": "#e8e8e8", "zeroline": False}


def layout_of(
    points: np.ndarray, axes: tuple[str, ...], times: list[str], toward: np.ndarray, hidden: bool
) -> dict[str, Any]:
    """Return a plotly layout whose ranges fit all frames, with equal scales, a slider over time, and axes unless `hidden`.

    Args:
        points: (f, n, 2 or 3) positions.
        axes: names of the axes.
        times: the label of each frame.
        toward: (3,) direction toward the viewer, for positions in space.
        hidden: draw no axes.
    """
    low, high = points.min(axis=(0, 1)).astype(float), points.max(axis=(0, 1)).astype(float)
    padding = 0.06 * np.maximum(high - low, 1e-6)
    spans = np.stack([low - padding, high + padding], 1).tolist()
    each = [GRID | {"title": {"text": name}, "range": span} for name, span in zip(axes, spans, strict=True)]
    common = {"template": "none", "showlegend": False, "sliders": [_slider(times)], "updatemenus": [_buttons()]}
    if len(axes) == 3:
        looks = {"showbackground": False, "visible": not hidden}
        scene: dict[str, Any] = {f"{letter}axis": axis | looks for letter, axis in zip("xyz", each, strict=True)}
        camera = {"eye": dict(zip("xyz", (1.5 if hidden else 2.4) * toward, strict=True))}
        scene |= {"aspectmode": "data", "camera": camera}
        return common | {"height": 640, "margin": {"l": 0, "r": 24, "t": 0, "b": 120}, "scene": scene}
    equal = {} if axes[1].startswith("token") else {"scaleanchor": "x", "constrain": "domain"}
    margin = {"l": 60, "r": 10, "t": 10, "b": 50}
    return common | {
        "height": 640,
        "margin": margin,
        "xaxis": each[0] | {"constrain": "domain"},
        "yaxis": each[1] | equal,
    }


def _slider(times: list[str]) -> dict[str, Any]:
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"label": time, "method": "animate", "args": [[str(k)], now]} for k, time in enumerate(times)]
    return {"steps": steps, "currentvalue": {"prefix": "time "}, "pad": {"t": 50, "b": 30}, "x": 0.0, "len": 1.0}


def _buttons() -> dict[str, Any]:
    play = {"frame": {"duration": 60, "redraw": True}, "transition": {"duration": 0}, "fromcurrent": True}
    stop = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    buttons = [
        {"label": "play", "method": "animate", "args": [None, play]},
        {"label": "stop", "method": "animate", "args": [[None], stop]},
    ]
    place = {"x": 1.0, "y": 0.0, "xanchor": "right", "yanchor": "top", "pad": {"t": 40, "r": 0}}
    return {"type": "buttons", "direction": "left", "buttons": buttons, **place}
