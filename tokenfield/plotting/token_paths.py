"""The tokens and their paths."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from ..observables import Clusters
from ..results import Trajectory
from .frames import MOST_FRAMES, MOST_SHOWN, Frames, areas, final_clusters, read_frames
from .projection import View, symbol, view_of
from .scenery import draw_scenery
from .style import INK, cluster_heading, cluster_marks, colored, token_colors, write_title
from .time_axis import draw_time_axis

MOST_PATHS = 256
MOST_STARTS = 1000
ARC = np.radians(6)  # longer steps on the sphere are drawn as arcs


def tokens_panel(
    traj: Trajectory,
    ax: Axes,
    frames: int = MOST_FRAMES,
    tol: float = 1e-3,
    legend: str | None = "panel",
    letter: str = "",
) -> Axes:
    """Draw tokens in their space: faint circles where they start, paths, strong marks where they end.

    Colors show final clusters. The area of a token's mark is proportional to its weight; that of a cluster's mark grows with
    its mass. The circle, the plane and the sphere are drawn themselves; the sphere is seen from the side of the final mean, and
    tokens behind it are paler. In more dimensions, tokens are projected to the two principal axes of the tokens pooled over
    time, and the title says so. Tokens on the line are drawn against time. With more than 256 tokens some paths are left out,
    with more than 1000 the starts too, and with more than 4096 only a random sample (always the same one) is drawn.

    Args:
        traj: a run of tokens.
        ax: plain matplotlib axes.
        frames: maximum number of saved states through which paths are drawn.
        tol: tolerance of the clusters, see `tokenfield.clusters`.
        legend: list the sizes of the clusters below the "panel", at the bottom of its "figure", or not at all (None).
        letter: a bold letter before the title.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.tokens_panel(traj, tkf.plotting.Sheet().add_subplot())
    """
    shown = read_frames(traj, frames).sample(MOST_SHOWN)
    groups, _ = final_clusters(shown, tol)
    colors, view = token_colors(groups), view_of(shown)
    if shown.d == 1:
        _against_time(traj, ax, shown, view, colors)
    else:
        draw_scenery(ax, view)
        _paths(ax, view_of(arcs(shown)), colors)
        _starts(ax, view, colors)
        _ends(ax, view, groups, colors, areas(shown.weights[-1]))
    write_title(ax, view.title + (f"\n({shown.share})" if shown.share else ""), letter)
    if legend:
        _legend(ax, groups, shown.weights[-1], outside=legend == "figure")
    return ax


def arcs(frames: Frames) -> Frames:
    """Cut steps of more than 6° on the circle and the sphere into arcs of great circles, so that paths stay on it."""
    if not frames.spherical or frames.d > 3:
        return frames
    chords = np.linalg.norm(np.diff(frames.x, axis=0), axis=-1).max(axis=1)
    pieces = np.ceil(2 * np.arcsin(np.minimum(chords / 2, 1)) / ARC).astype(int).clip(1)
    steps = [np.arange(count)[:, None, None] / count for count in pieces]
    x = np.concatenate(
        [*(a + part * (b - a) for a, b, part in zip(frames.x[:-1], frames.x[1:], steps, strict=True)), frames.x[-1:]]
    )
    lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    return frames._replace(x=x / np.where(lengths > 0, lengths, 1))


def _against_time(traj: Trajectory, ax: Axes, shown: Frames, view: View, colors: np.ndarray) -> None:
    chosen = _some(shown.n)
    lines = np.stack(np.broadcast_arrays(shown.times[:, None], view.x[..., 0]), -1)[:, chosen].swapaxes(0, 1)
    alpha = _path_alpha(len(chosen))
    ax.add_collection(LineCollection(list(lines), colors=colors[chosen], alpha=alpha, lw=0.9, rasterized=True))
    ax.scatter(np.full(shown.n, shown.times[-1]), view.x[-1, :, 0], s=14, c=colors, zorder=3, clip_on=False, lw=0)
    ax.set(ylabel=f"${symbol(shown)}$")
    ax.autoscale_view()
    draw_time_axis(traj, ax, shown.times)


def _some(n: int) -> np.ndarray:
    return np.arange(n) if n <= MOST_PATHS else np.linspace(0, n - 1, MOST_PATHS).round().astype(int)


def _path_alpha(count: int) -> float:
    return float(np.clip(8 / np.sqrt(count + 1), 0.3, 0.75))


def _paths(ax: Axes, view: View, colors: np.ndarray) -> None:
    """Draw paths in pieces; those behind the sphere are paler."""
    chosen = _some(view.points.shape[1])
    points, depth = view.points[:, chosen], view.depth[:, chosen]
    behind = ((depth[1:] + depth[:-1] < 0) & (view.kind == "sphere")).T
    pieces = np.stack([points[:-1], points[1:]], 2).swapaxes(0, 1)
    moving = np.abs(np.diff(pieces, axis=2)).max(axis=(2, 3)) > 1e-4 * np.ptp(points)
    if view.period is not None:  # leave out pieces that jump from one side to the other
        moving &= np.abs(np.diff(pieces, axis=2)).max(axis=(2, 3)) < view.period / 2
    for hidden, strength, order in ((True, 0.3, 1.5), (False, 1.0, 2)):
        keep = moving & (behind == hidden)
        shades = np.repeat(colors[chosen], keep.sum(1), axis=0)
        shades[:, 3] = strength * _path_alpha(len(chosen))
        lines = LineCollection(list(pieces[keep]), colors=shades, lw=0.8, rasterized=True, zorder=order)
        ax.add_collection(lines)
    ax.autoscale_view()


def _starts(ax: Axes, view: View, colors: np.ndarray) -> None:
    if view.points.shape[1] > MOST_STARTS:
        return
    alpha = np.where(_hidden(view, 0), 0.15, 0.45)
    edges = np.concatenate([colors[:, :3], alpha[:, None]], 1)
    ax.scatter(*view.points[0].T, s=12, facecolors="none", edgecolors=edges, lw=0.7, zorder=2)


def _ends(ax: Axes, view: View, groups: Clusters, colors: np.ndarray, relative: np.ndarray) -> None:
    """Draw every token as a dot with area proportional to its weight, and every colored cluster as a disc that grows with its
    mass."""
    hidden = _hidden(view, -1)
    fill = np.concatenate([colors[:, :3], np.where(hidden, 0.35, 1.0)[:, None]], 1)
    order = np.argsort(view.depth[-1], kind="stable")
    size = 14 if len(order) <= 500 else 6
    ax.scatter(*view.points[-1, order].T, s=size * relative[order], c=fill[order], lw=0, zorder=3)
    marks = np.array([int(np.argmax(groups.labels == k)) for k in range(colored(groups))], int)
    area = 18 + 160 * groups.masses[groups.labels[marks]]
    edges = np.where(hidden[marks, None], to_rgba(INK, 0.3), to_rgba(INK))
    ax.scatter(*view.points[-1, marks].T, s=area, c=fill[marks], edgecolors=edges, lw=0.7, zorder=4)


def _hidden(view: View, frame: int) -> np.ndarray:
    return (view.depth[frame] < 0) & (view.kind == "sphere")


def _legend(ax: Axes, groups: Clusters, weights: np.ndarray, outside: bool) -> None:
    """List the sizes of clusters, row by row, below the panel or at the bottom of its figure."""
    handles = cluster_marks(groups, weights)
    columns = min(len(handles), 5)
    handles = [handles[k] for start in range(columns) for k in range(start, len(handles), columns)]
    options = {"handles": handles, "ncols": columns, "title": cluster_heading(groups), "title_fontsize": 8}
    if outside:
        ax.figure.legend(loc="outside lower center", **options)
    else:
        place = (0.5, -0.17 if ax.axison else -0.01)
        ax.legend(loc="upper center", bbox_to_anchor=place, borderaxespad=0, **options)
