"""Animations of tokens: a GIF, an MP4 video, or a page with a player."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection

from .._check import count, positive
from .._files import replacing
from ..results import Trajectory
from .frames import areas, final_clusters, read_frames
from .gif import write_gif
from .movie import ffmpeg, write_movie
from .pacing import pace
from .projection import View, view_of
from .scenery import draw_scenery
from .style import Sheet, styled, token_colors
from .time_axis import time_text

MOST_MOVING = 1000
PIXELS = 480
TAIL = 6  # length of a token's tail, in frames
SUFFIXES = (".gif", ".mp4", ".html")


class Scene(NamedTuple):
    """The contents of an animation: view, colors (n, 4), areas of marks (f, n), title, and the time of each frame as text."""

    view: View
    colors: np.ndarray
    sizes: np.ndarray
    title: str
    times: list[str]


@styled
def animate(
    traj: Trajectory,
    path: str | os.PathLike,
    fps: float = 20,
    frames: int | None = None,
    tol: float = 1e-3,
    time: str | None = None,
) -> Path:
    """Write an animation of the tokens: on the circle or sphere, in the plane or space, or in their principal components.

    Colors show final clusters, areas of marks are proportional to weights, and short tails show where tokens come from. Frames
    are evenly spaced in time, or in log time if tokens move early (half of the motion within a tenth of the time). Tokens are
    interpolated between saved states; saving more states is more accurate. States saved at uneven times are shown one after
    another. If there are more than 1000 tokens, a random sample (always the same one) is shown.

    Args:
        traj: a run of tokens.
        path: the file to write. Its suffix is the format: ".gif", ".mp4" (needs ffmpeg), or ".html", one page with a player
            that needs no network.
        fps: frames per second.
        frames: maximum number of frames; 100 by default, and at most the number of saved states.
        tol: tolerance of the final clusters.
        time: "log" or "linear"; chosen by default.

    Returns:
        The path.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.animate(traj, "run.gif", fps=20)
    """
    target, fps = Path(path), positive("fps", fps)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f'path must end in ".gif", ".mp4" or ".html", got {str(path)[-80:]!r}')
    if suffix == ".mp4":
        ffmpeg()  # fail before the work starts
    most = 100 if frames is None else count("frames", frames)
    scene = _scene(traj, most, tol, time)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part:
        if suffix == ".html":
            from .player import write_player

            write_player(part, *_stage(scene), scene, fps, TAIL)
        else:
            write = write_gif if suffix == ".gif" else write_movie
            write(part, _images(scene), fps)
    return target


def _scene(traj: Trajectory, most: int, tol: float, time: str | None) -> Scene:
    saved = read_frames(traj, most=len(traj.times)).sample(MOST_MOVING)
    groups, _ = final_clusters(saved, tol)
    shown, log_times, _ = pace(saved, traj.log_times[: len(saved.times)], time, most)
    view = view_of(shown)
    size = 26 if shown.n <= 300 else 10
    sizes = size * np.array([areas(each) for each in shown.weights])
    title = view.title + (f" ({shown.share})" if shown.share else "")
    times = [time_text(traj, *each) for each in zip(shown.times, log_times, strict=True)]
    return Scene(view, token_colors(groups), sizes, title, times)


def _stage(scene: Scene) -> tuple[Sheet, Axes]:
    """Draw the figure, with everything that does not move."""
    sheet = Sheet(4.0, 4.0, dpi=PIXELS / 4.0)
    FigureCanvasAgg(sheet)
    ax = sheet.add_subplot()
    draw_scenery(ax, scene.view)
    _limits(ax, scene.view)
    ax.set_title(scene.title)
    return sheet, ax


def _images(scene: Scene) -> Iterator[np.ndarray]:
    """Yield the frames: the scenery is drawn once, the tokens and their tails over it each time."""
    sheet, ax = _stage(scene)
    canvas = sheet.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    tails = ax.add_collection(LineCollection([], lw=1.0, zorder=2, animated=True))
    dots = ax.scatter([], [], linewidths=0, zorder=3, animated=True)
    clock = ax.text(1.0, 1.02, "", transform=ax.transAxes, ha="right", animated=True)
    canvas.draw()
    sheet.set_layout_engine("none")
    background = canvas.copy_from_bbox(sheet.bbox)
    for k, time in enumerate(scene.times):
        canvas.restore_region(background)
        _move(scene, k, tails, dots)
        clock.set_text(time)
        for artist in (tails, dots, clock):
            ax.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba())[..., :3]


def _limits(ax: Axes, view: View) -> None:
    """Set axis limits that contain all frames, unless the scenery has set them."""
    if view.kind in ("plane", "pca", "line"):
        low, high = view.points.min(axis=(0, 1)), view.points.max(axis=(0, 1))
        ax.update_datalim([low, high])
        ax.autoscale_view()


def _move(scene: Scene, k: int, tails: LineCollection, dots) -> None:
    view = scene.view
    behind = (view.depth[k] < 0) & (view.kind == "sphere")
    order = np.argsort(view.depth[k], kind="stable")
    shades = np.concatenate([scene.colors[:, :3], np.where(behind, 0.3, 1.0)[:, None]], 1)
    dots.set(offsets=view.points[k, order], facecolors=shades[order], sizes=scene.sizes[k, order])
    pale = shades * (1, 1, 1, 0.35)
    tails.set(segments=list(view.points[max(0, k - TAIL) : k + 1].swapaxes(0, 1)), colors=pale)
