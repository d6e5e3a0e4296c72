"""The vector field in which tokens move, on the circle, on the sphere and in the plane."""

import math
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.quiver import Quiver

from .._check import number
from ..flows import velocity_field
from ..results import Trajectory
from ..spaces import AbstractSpace, Euclidean, Sphere
from ..states import Tokens
from ..transformer import Transformer, only_transformer
from .frames import MOST_SHOWN, Frames, areas
from .projection import View, view_of
from .scenery import draw_scenery
from .style import DENSITY, PALETTE, Sheet, styled, write_title

ANGLES = 54
ON_SPHERE = 800
ACROSS = 21
MARGIN = 0.2  # margin around tokens in the plane, as a fraction of their extent
OUTSIDE = 1.13  # radius at which arrows of the circle are drawn, so that they do not hide the tokens
LIMB = 0.15  # nearer to the edge of the drawn sphere, arrows would cover each other
FULL = 0.2  # arrows of at least this fraction of the largest speed have full length
COLORS = ListedColormap(matplotlib.colormaps[DENSITY](np.linspace(0.3, 1.0, 256)))


class Field(NamedTuple):
    """A vector field at some points.

    Attributes:
        points: (m, d) points of the unit sphere if the norm moves directions, otherwise of the plane.
        velocities: (m, d) their velocities: tangents of the unit sphere, or dx/dt.
        length: the length of the tokens, if points are directions; None in the plane.
        step: distance between neighboring points.
    """

    points: np.ndarray
    velocities: np.ndarray
    length: float | None
    step: float


@styled
def field_figure(
    traj: Trajectory,
    t: float | None = None,
    model: Transformer | None = None,
    width: float = 4.4,
    height: float = 3.6,
) -> Sheet:
    """Draw the velocity that a token would have at each point, as arrows, and the tokens as dots, at one time of a run.

    The field is drawn on the circle (just outside it, so that the tokens can be seen), on the front of the sphere, or in the
    plane. Colors show the speed. Arrows have the same length, except that arrows slower than a fifth of the largest speed are
    proportionally shorter. If the norm lets lengths evolve, the field is that of the direction of a token of mean length.

    Args:
        traj: a run of tokens with d = 2, or with d = 3 under a norm that moves directions.
        t: the time; the saved state nearest to it is drawn. The default is the last saved state.
        model: the Transformer, by default `traj.model`; required if it has functions of time or your own kernels.
        width, height: in inches.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> traj.plot_field(0.5).savefig("field.pdf")
    """
    time, state = state_near(traj, t)
    model = _recorded(traj) if model is None else only_transformer(model)
    if not isinstance(model.space, (Sphere, Euclidean)):
        where = type(model.space).__name__
        raise ValueError(f"plot_field needs tokens on the circle, on the sphere or in the plane, got tokens in {where}")
    frame = _frame(time, state, model.space)
    field = field_of(model, state, time, frame.spherical)
    view, sheet = view_of(frame), Sheet(width, height)
    ax = sheet.add_subplot()
    draw_scenery(ax, view)
    arrows = _draw_arrows(ax, view, field)
    _draw_tokens(ax, view, areas(frame.weights[0]))
    _set_limits(ax, view, field)
    unit = "unit of time" if traj.log_time_unit == 0 else f"time $10^{{{traj.log_time_unit / math.log(10):.4g}}}$"
    what = "radians" if frame.spherical else "length"
    sheet.colorbar(arrows, ax=ax, shrink=0.8, pad=0.03, label=f"speed ({what} per {unit})")
    write_title(ax, _title(frame, field))
    return sheet


def _recorded(traj: Trajectory) -> Transformer:
    try:
        return traj.model
    except ValueError as error:
        raise ValueError(f"{error}: pass model=") from None


def state_near(traj: Trajectory, t: float | None) -> tuple[float, Tokens]:
    """Return the saved state of a run nearest to time t, up to the last finite one, and its time."""
    kind = traj.dataset.attrs["state"]
    if kind != "Tokens":
        raise TypeError(f"plot_field needs a run of Tokens, got a run of {kind}: sample it to tokens")
    finite = np.isfinite(traj.dataset["x"].values).all(axis=(1, 2))
    times = traj.times if finite.all() else traj.times[: int(np.argmin(finite))]
    time = float(times[-1]) if t is None else number("t", t)
    if not times[0] <= time <= times[-1]:
        raise ValueError(f"t must be within the run, from {times[0]:g} to {times[-1]:g}, got {time:g}")
    k = int(np.argmin(np.abs(times - time)))
    return float(times[k]), traj.state(k)


def field_of(model: Transformer, state: Tokens, t: float, spherical: bool) -> Field:
    """Return the velocities of test tokens on a grid, among the tokens of a state at time t."""
    x, w = np.asarray(state.x), np.asarray(state.weights)
    if not (state.d == 2 or (state.d == 3 and spherical)):
        where = "the sphere of " if spherical else ""
        raise ValueError(
            f"plot_field needs tokens on the circle, on the sphere or in the plane, got tokens in {where}R^{state.d}"
        )
    if not spherical:
        points, step = plane_grid(x)
        return Field(points, np.asarray(velocity_field(model, state, points, t)), None, step)
    points, step = circle_grid() if state.d == 2 else sphere_grid()
    length = float(w @ np.linalg.norm(x, axis=1))
    moved = np.asarray(velocity_field(model, state, length * points, t))
    along = moved - (moved * points).sum(1, keepdims=True) * points
    return Field(points, along / length, length, step)


def plane_grid(x: np.ndarray) -> tuple[np.ndarray, float]:
    """Return a square grid around points of the plane, and its step."""
    low, high = x.min(0), x.max(0)
    half = (0.5 + MARGIN) * (float((high - low).max()) or 1.0)
    ticks = np.linspace(-half, half, ACROSS)
    return np.stack(np.meshgrid(*ticks + (low + high)[:, None] / 2), -1).reshape(-1, 2), ticks[1] - ticks[0]


def circle_grid() -> tuple[np.ndarray, float]:
    """Return equal angles on the unit circle, and the distance between neighbors."""
    angles = 2 * np.pi * np.arange(ANGLES) / ANGLES
    return np.stack([np.cos(angles), np.sin(angles)], 1), 2 * np.pi / ANGLES


def sphere_grid() -> tuple[np.ndarray, float]:
    """Return points of the unit sphere on the Fibonacci spiral, and the distance between neighbors."""
    k = np.arange(ON_SPHERE) + 0.5
    height, angle = 1 - 2 * k / ON_SPHERE, np.pi * (1 + 5**0.5) * k
    around = np.sqrt(1 - height**2)
    return np.stack([around * np.cos(angle), around * np.sin(angle), height], 1), np.sqrt(4 * np.pi / ON_SPHERE)


def _frame(t: float, state: Tokens, space: AbstractSpace) -> Frames:
    """Return the tokens as one frame, a sample of them if there are many."""
    tokens, weights = np.asarray(state.x)[None], np.asarray(state.weights)[None]
    lengths = np.linalg.norm(tokens, axis=-1, keepdims=True)
    spherical = isinstance(space, Sphere)
    longer = spherical and bool((np.abs(lengths - 1) > 1e-9).any())
    x = tokens / np.where(lengths > 0, lengths, 1) if spherical else tokens
    symbol = "θ" if longer else "x"
    with np.errstate(divide="ignore"):
        moments = np.array([t]), np.log([t])
    return Frames(*moments, x, tokens, weights, space, symbol, state.n).sample(MOST_SHOWN)


def _draw_arrows(ax: Axes, view: View, field: Field) -> Quiver:
    speeds = np.linalg.norm(field.velocities, axis=1)
    top = float(speeds.max()) or 1.0
    lengths = 0.85 * field.step * np.minimum(1, speeds / (FULL * top))
    arrows = field.velocities * (lengths / np.where(speeds > 0, speeds, 1))[:, None]
    places = field.points
    if view.kind == "circle":
        places = OUTSIDE * places
    if view.kind == "sphere":
        in_front = (places @ view.basis[2]) > LIMB
        places, arrows = (a[in_front] @ view.basis[:2].T for a in (places, arrows))
        speeds = speeds[in_front]
    style = {"angles": "xy", "scale_units": "xy", "scale": 1, "pivot": "middle", "units": "xy"}
    width = (0.13 if view.kind == "circle" else 0.1) * field.step
    shape = {"width": width, "headwidth": 3.6, "headlength": 4, "headaxislength": 3.6, "minlength": 0.3}
    order = {"cmap": COLORS, "norm": Normalize(0, top), "zorder": 1.8}
    return ax.quiver(*places.T, *arrows.T, speeds, **style, **shape, **order)


def _draw_tokens(ax: Axes, view: View, relative: np.ndarray) -> None:
    """Draw tokens as dots with areas proportional to their weights; those behind the sphere are paler."""
    hidden = (view.depth[0] < 0) & (view.kind == "sphere")
    for which, alpha, order in ((hidden, 0.3, 1.5), (~hidden, 1.0, 3)):
        size = (16 if len(relative) <= 500 else 7) * relative[which]
        dots = {"s": size, "color": PALETTE[1], "edgecolors": "white", "lw": 0.5, "alpha": alpha, "zorder": order}
        ax.scatter(*view.points[0, which].T, **dots)


def _set_limits(ax: Axes, view: View, field: Field) -> None:
    if view.kind == "sphere":
        return
    low, high = field.points.min(0) - 0.7 * field.step, field.points.max(0) + 0.7 * field.step
    if view.kind == "circle":
        low, high = np.full(2, -OUTSIDE - 0.1), np.full(2, OUTSIDE + 0.1)
    ax.set_aspect("equal", adjustable="box")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def _title(frame: Frames, field: Field) -> str:
    where = "in the plane" if not frame.spherical else "on the circle" if frame.d == 2 else "on the sphere"
    what = "a direction" if frame.symbol == "θ" else "a token"
    length = f", length {field.length:.3g}" if frame.symbol == "θ" else ""
    share = f"\n({frame.share})" if frame.share else ""
    return f"Velocity of {what} {where}, $t = {frame.times[0]:.3g}${length}{share}"
