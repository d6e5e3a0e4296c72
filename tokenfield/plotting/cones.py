"""Covariances in the plane as points of a cone, and their paths under several kernels."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from ..results import Ensemble, Trajectory
from ..studies.gaussian_cones import CASES, KERNELS, TARGETS, outcomes
from .style import GRAY, INK, PALETTE, WIDTH, Sheet, styled

Runs = Ensemble | Iterable[Trajectory] | Iterable[np.ndarray]
COLORS = {"settles": PALETTE[0], "blows up": PALETTE[1], "grows": PALETTE[2]}
VIEW = 14, -62  # degrees: elevation, azimuth


def cone_coordinates(cov: ArrayLike) -> np.ndarray:
    """Return `((a, c), (c, b)) -> (x, y, z) = (a - b, 2c, a + b)`: the cone of covariances for d = 2 (FORMULAS §5).

    z is the trace and `z^2 - x^2 - y^2` four times the determinant, so covariances fill `x^2 + y^2 <= z^2`, and covariances
    of rank one fill its surface.

    Args:
        cov: (..., 2, 2) covariances.

    Returns:
        (..., 3) points.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.plotting.cone_coordinates([[0.7, 0.1], [0.1, 0.3]])
        array([0.4, 0.2, 1. ])
    """
    cov = np.asarray(cov, float)
    if cov.shape[-2:] != (2, 2):
        raise ValueError(f"cov must have shape (..., 2, 2), got {cov.shape}")
    a, b, c = cov[..., 0, 0], cov[..., 1, 1], (cov[..., 0, 1] + cov[..., 1, 0]) / 2
    return np.stack([a - b, 2 * c, a + b], axis=-1)


def covariance_paths(runs: Runs) -> list[np.ndarray]:
    """Return (times, 2, 2) covariances of each run, up to its end."""
    if isinstance(runs, Ensemble):
        data = runs.dataset
        if "cov" not in data:
            raise TypeError(f"runs must be runs of a Gaussian, got runs of {data.attrs.get('state')}")
        early = data["time"].values[None, :] < data["end_time"].values[:, None]
        every = zip(data["cov"].values, data["end_cov"].values, early, strict=True)
        return [np.concatenate([cov[keep], end[None]]) for cov, end, keep in every]
    paths = [run.dataset["cov"].values if isinstance(run, Trajectory) else np.asarray(run) for run in runs]
    return [path[np.isfinite(path).all(axis=(1, 2))] for path in paths]


@styled
def cone_plot(
    runs: Runs,
    ax: Axes | None = None,
    *,
    normalized: bool = False,
    colors: Sequence[Any] | None = None,
    view: tuple[float, float] = VIEW,
    labels: bool = True,
) -> Axes:
    """Draw paths of covariances in the cone of symmetric positive 2 x 2 matrices, at `cone_coordinates`.

    Circles are starts, dots are ends. The dashed circle is where the slice of trace 1 meets the surface.

    Args:
        runs: runs of `Gaussian(mean, cov)` in the plane: an `Ensemble`, trajectories, or arrays (times, 2, 2).
        ax: axes to draw into (3-d; plain ones if normalized); a new figure by default.
        normalized: draw `Sigma/tr Sigma`, which stays in the slice of trace 1: a disc, whose rim has rank one. Use it for
            runs that blow up.
        colors: one for each run; by default, runs that blow up have a different color.
        view: elevation and azimuth of the camera, in degrees.
        labels: name the axes.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(A=[[-1.0, 0.0], [0.0, 0.0]]))
        >>> starts = [tkf.Gaussian(None, [[0.5, c], [c, 0.5]]) for c in (-0.4, 0.0, 0.4)]
        >>> tkf.plotting.cone_plot(tkf.simulate_many(model, starts, t1=100.0)).figure.savefig("cone.png")
    """
    runs = runs if isinstance(runs, Ensemble) else list(runs)
    paths = covariance_paths(runs)
    if colors is None:
        colors = [PALETTE[int(blown)] for blown in _blown_up(runs)]
    zoom = 1.4  # fills given axes; in a new figure the labels need room
    if ax is None:
        zoom = 1.1
        ax = Sheet(3.4, 3.2).add_subplot(projection=None if normalized else "3d")
    points = [cone_coordinates(path) for path in paths]
    if normalized:
        points = [point[:, :2] / point[:, 2:] for point in points]
        _draw_disc(ax, labels)
    else:
        _draw_cone(ax, max(1.0, max(point[:, 2].max() for point in points)), view, labels, zoom)
    for point, color in zip(points, colors, strict=True):
        ax.plot(*point.T, color=color, lw=0.6, alpha=0.5, zorder=2)
    for index, style in ((0, {"mfc": "white", "mew": 0.6, "ms": 2.0}), (-1, {"mew": 0, "ms": 3.0})):
        for color in dict.fromkeys(colors):  # one call per color: 3-d axes are slow
            chosen = np.array([point[index] for point, own in zip(points, colors, strict=True) if own == color])
            ax.plot(*chosen.T, "o", color=color, **style, zorder=3)
    return ax


def _blown_up(runs: Runs) -> list[bool]:
    events = (
        runs.events
        if isinstance(runs, Ensemble)
        else [run.events if isinstance(run, Trajectory) else () for run in runs]
    )
    return [any(event.kind == "blow_up" for event in each) for each in events]


def _draw_cone(ax: Axes, top: float, view: tuple[float, float], labels: bool, zoom: float) -> None:
    angle = np.linspace(0, 2 * np.pi, 61)
    height = np.array([[0.0], [top]])
    ax.plot_surface(
        height * np.cos(angle), height * np.sin(angle), height + 0 * angle, color=GRAY, alpha=0.13, lw=0, shade=False
    )
    ax.plot(top * np.cos(angle), top * np.sin(angle), top, color=GRAY, lw=0.6)
    if top > 1:
        ax.plot(np.cos(angle), np.sin(angle), 1, color=GRAY, lw=0.6, ls="--")
    ax.computed_zorder = False
    ax.set_axis_off()
    ax.set(xlim=(-top, top), ylim=(-top, top), zlim=(0, top))
    ax.set_box_aspect((1, 1, 0.85), zoom=zoom)
    ax.view_init(*view)
    if labels:
        axes = (((1, 0, 1), (1.25, 0, 1), "$a-b$"), ((0, 1, 1), (0, 1.5, 1), "$2c$"), ((0, 0, 0), (0, 0, 1.2), "$a+b$"))
        for start, end, text in axes:
            ax.plot(*(top * np.array([start, end])).T, color=INK, lw=0.5, zorder=4)
            ax.text(*(top * np.array(end)), f" {text}", fontsize=7, va="center", zorder=4)


def _draw_disc(ax: Axes, labels: bool) -> None:
    angle = np.linspace(0, 2 * np.pi, 181)
    ax.fill(np.cos(angle), np.sin(angle), color=GRAY, alpha=0.13, lw=0)
    ax.plot(np.cos(angle), np.sin(angle), color=GRAY, lw=0.6)
    ax.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    ax.set_axis_off()
    if labels:
        ax.text(1.13, 0, r"$\frac{a-b}{a+b}$", fontsize=9, ha="left", va="center")
        ax.text(0, 1.12, r"$\frac{2c}{a+b}$", fontsize=9, ha="center", va="bottom")


@styled
def cone_figure(runs: Sequence[Ensemble]) -> Sheet:
    """Draw six behaviors of Gaussian data in the plane under four kernels, in the cone of covariances (FORMULAS §5).

    Each row has one choice of Q, K, V. Softmax and L2 attention use `K^T Q/sqrt(2)`, Sinkhorn attention uses `K^T Q`, and
    multi-head attention has two softmax heads made of the first and second rows of Q, K, V. The text below each picture says
    what the runs do.

    Args:
        runs: the results of `tokenfield.studies.cone_study`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.plotting.cone_figure(tkf.studies.cone_study(quick=True)).savefig("cones.pdf")
    """
    sheet = Sheet(WIDTH, 8.9, layout="none")
    left, top, bottom = 0.17, 0.95, 0.03  # fractions of the figure: the pictures lie between these
    width, height = (1 - left) / len(KERNELS), (top - bottom) / len(CASES)
    for row, (case, run) in enumerate(zip(CASES, runs, strict=True)):
        y = top - row * height
        sheet.text(0.01, y - 0.26 * height, rf"$\mathbf{{{'abcdef'[row]}}}$  {case.name}", fontsize=10, va="bottom")
        what = r"$\Sigma / \mathrm{tr}\,\Sigma$" if case.normalized else r"$\Sigma$"
        sheet.text(0.035, y - 0.32 * height, f"{case.formula}\ndrawn: {what}", fontsize=8, va="top", linespacing=1.5)
        paths = covariance_paths(run)
        colors = [COLORS[word] for word in outcomes(run)]
        each = len(paths) // len(KERNELS)
        for column, (kernel, outcome) in enumerate(zip(KERNELS, case.outcomes, strict=True)):
            middle, own = left + (column + 0.5) * width, slice(column * each, (column + 1) * each)
            box = middle - 0.5 * width, y - 0.88 * height, width, 0.88 * height
            ax = sheet.add_axes(box, projection=None if case.normalized else "3d")
            _draw_target(ax, TARGETS.get(outcome, ()), plane="plane" in outcome)
            cone_plot(
                paths[own],
                ax,
                normalized=case.normalized,
                colors=colors[own],
                view=case.view,
                labels=row + column == 0,
            )
            sheet.text(middle, y - 0.94 * height, outcome, ha="center", fontsize=8)
            if row == 0:
                sheet.text(middle, 0.985, kernel, ha="center", va="center", fontsize=10)
    marks = [Line2D([], [], color=color, marker="o", ms=4, label=word) for word, color in COLORS.items()]
    start = Line2D([], [], color=GRAY, marker="o", ls="", ms=4, mfc="white", label="start, of trace 1")
    sheet.legend(handles=[start, *marks], loc="lower right", ncols=4, bbox_to_anchor=(0.99, 0.0))
    return sheet


def _draw_target(ax: Axes, edges: Sequence[np.ndarray], plane: bool) -> None:
    """Draw the set of limits: rays, or the part of a plane between two rays."""
    if plane:
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection

        corners = [np.zeros(3), *(cone_coordinates(edge) for edge in edges)]
        ax.add_collection3d(Poly3DCollection([corners], facecolor=PALETTE[4], alpha=0.3, lw=0, zorder=1))
    for edge in edges:
        ax.plot(*np.stack([np.zeros(3), cone_coordinates(edge)]).T, color=PALETTE[4], lw=1.2, zorder=1)
