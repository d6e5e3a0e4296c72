"""The background of tokens: the circle, the sphere, a box of R^3, plain axes."""

from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle

from .projection import View, graticule
from .style import GRAY, INK, PALE


def draw_scenery(ax: Axes, view: View) -> None:
    """Draw the background of a view, its axes and their limits."""
    if view.kind == "sphere":
        _sphere(ax, view)
    elif view.kind == "space":
        _box(ax, view)
    elif view.kind == "line":
        ax.set(xlabel=view.axes[0], ylabel="token, by initial position", ylim=(0, view.points.shape[1] + 1))
    else:
        _plane(ax, view)


def _plane(ax: Axes, view: View) -> None:
    ax.set(xlabel=view.axes[0], ylabel=view.axes[1])
    periodic = view.period is not None and view.kind == "plane"
    ax.set_aspect("equal", adjustable="datalim" if view.kind == "plane" and not periodic else "box")
    if periodic and view.period is not None:
        _torus(ax, view.period)
        return
    unit = view.kind in ("circle", "disc") or (view.kind == "pca" and np.linalg.norm(view.x, axis=-1).max() < 1 + 1e-6)
    if not unit:
        return
    style = "-" if view.kind in ("circle", "disc") else (0, (1, 2))
    ax.add_patch(Circle((0, 0), 1, fill=False, lw=0.8, ls=style, color=GRAY, zorder=0))
    ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), xticks=(-1, 0, 1), yticks=(-1, 0, 1))


def _torus(ax: Axes, period: float) -> None:
    """Draw one period of two angles, whose opposite sides are identified."""
    half, names = period / 2, ("−π", "0", "π")
    ax.set(xlim=(-half, half), ylim=(-half, half))
    ax.set_xticks((-half, 0, half), names)
    ax.set_yticks((-half, 0, half), names)


def _sphere(ax: Axes, view: View) -> None:
    """Draw a shaded disc with parallels and meridians; those in front are darker than those behind."""
    shade = np.linspace(-1, 1, 160)
    height = 1 - shade[None] ** 2 - shade[:, None] ** 2
    light = np.sqrt(np.maximum(height, 0)) * 0.62 - 0.3 * shade[None] + 0.38 * shade[:, None]
    image = ax.imshow(light, cmap="Greys_r", vmin=-4.2, vmax=0.85, extent=(-1, 1, -1, 1), origin="lower", zorder=0)
    disc = Circle((0, 0), 1, transform=ax.transData, fill=False, lw=0.8, color=GRAY, zorder=1)
    ax.add_patch(disc)
    image.set_clip_path(disc)
    for line in graticule():
        rotated = line @ view.basis.T
        for sign, alpha in ((-1, 0.25), (1, 0.8)):
            shown = np.where((sign * rotated[:, 2:] > 0), rotated[:, :2], np.nan)
            ax.plot(*shown.T, color="#b5b5b5", lw=0.5, alpha=alpha, zorder=1)
    ax.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06))
    ax.set_aspect("equal")
    ax.axis("off")


def _box(ax: Axes, view: View) -> None:
    """Draw the edges of the smallest box around all tokens, with the range of each coordinate on one edge."""
    low, high = view.x.min(axis=(0, 1)), view.x.max(axis=(0, 1))
    high = np.where(high > low, high, low + 1)
    corners = np.array(list(product(*zip(low, high, strict=True))))
    page = corners @ view.basis.T
    pairs = [(i, j) for i in range(8) for j in range(i) if (corners[i] != corners[j]).sum() == 1]
    hidden = int(np.argmin(page[:, 2]))
    behind = [pair for pair in pairs if hidden in pair]
    front = [pair for pair in pairs if hidden not in pair]
    for edges, style in ((behind, (0, (2, 2))), (front, "-")):
        ax.add_collection(LineCollection([page[list(e), :2] for e in edges], colors=PALE, lw=0.8, ls=style, zorder=0))
    center = page[:, :2].mean(0)
    for axis, name in enumerate(view.axes):
        edge = max(
            (e for e in front if corners[e[0]][axis] != corners[e[1]][axis]), key=lambda e: _outside(page, e, axis)
        )
        _label_edge(ax, page[list(edge), :2], corners[list(edge), axis], name, center)
    span = np.ptp(page[:, :2], axis=0).max()
    ax.set(xlim=center[0] + 0.62 * span * np.array([-1, 1]), ylim=center[1] + 0.62 * span * np.array([-1, 1]))
    ax.set_aspect("equal")
    ax.axis("off")


def _outside(page: np.ndarray, edge: tuple[int, int], axis: int) -> float:
    """Return how far an edge is toward the bottom (horizontal coordinates) or the left (the third) of the page."""
    middle = page[list(edge), :2].mean(0)
    return float(-middle[0] if axis == 2 else -middle[1])


def _label_edge(ax: Axes, ends: np.ndarray, values: np.ndarray, name: str, center: np.ndarray) -> None:
    """Write the coordinate and its range along the edge, outside the box."""
    first, last = ends[np.argsort(ends[:, 0], kind="stable")]
    slope = np.degrees(np.arctan2(*(last - first)[::-1]))
    slope = 90.0 if abs(slope) > 89 else float(slope)
    outward = ends.mean(0) - center
    offset = tuple(10 * outward / max(float(np.linalg.norm(outward)), 1e-300))
    label = f"{values.min():.2g} ≤ {name} ≤ {values.max():.2g}".replace("-", "−")
    options = {"ha": "center", "va": "center", "fontsize": 8, "color": INK, "rotation": slope}
    ax.annotate(label, tuple(ends.mean(0)), xytext=offset, textcoords="offset points", **options)
