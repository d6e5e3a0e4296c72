"""Moving tokens."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from PIL import Image

from .._check import count, positive
from ..results import Trajectory
from .frames import final_clusters, read_frames
from .projection import View, view_of
from .record import time_text
from .scenery import draw_scenery
from .style import INK, Sheet, styled, token_colours

MOST_MOVING = 1000
PIXELS = 480
TAIL = 6  # frames that a token's tail goes back
COLOURS = 96


@styled
def animate(
    traj: Trajectory, path: str | os.PathLike, fps: float = 20, frames: int | None = None, tol: float = 1e-3
) -> Path:
    """Write an animation of the tokens as a GIF: on the circle or sphere, in the plane or space, or their PCA.

    Colours are final clusters, and short tails show where tokens come from. Frames are saved states, evenly
    chosen; more states make it smoother. Of more than 1000 tokens a random sample (always the same one) is shown.

    Args:
        traj: a run of tokens.
        path: the file to write, ending in ".gif".
        fps: frames in a second.
        frames: at most so many frames; 100 by default.
        tol: tolerance of the final clusters.

    Returns:
        The path.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.plotting.animate(traj, "run.gif", fps=20)
    """
    target = Path(path)
    if target.suffix.lower() != ".gif":
        raise ValueError(f'path must end in ".gif", got {str(path)!r}')
    pause = 1000 / positive("fps", fps)
    shown = read_frames(traj, 100 if frames is None else count("frames", frames)).sample(MOST_MOVING)
    colours = token_colours(final_clusters(shown, tol)[0])
    title = view_of(shown).title + (f" ({shown.share})" if shown.share else "")
    times = [time_text(traj, time) for time in shown.times]
    images = list(_images(view_of(shown), colours, title, times))
    palette = _common_palette(images)
    images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations = [pause] * (len(images) - 1) + [max(pause, 1500.0)]  # rest at the end
    target.parent.mkdir(parents=True, exist_ok=True)
    images[0].save(target, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False)
    return target


def _common_palette(images: list[Image.Image]) -> Image.Image:
    """One palette for all frames, so that colours do not flicker and frames differ only where tokens moved."""
    some = [images[k] for k in np.unique(np.linspace(0, len(images) - 1, 6).astype(int))]
    strip = Image.new("RGB", (PIXELS, PIXELS * len(some)))
    for k, image in enumerate(some):
        strip.paste(image, (0, k * PIXELS))
    return strip.quantize(COLOURS)


def _images(view: View, colours: np.ndarray, title: str, times: list[str]) -> Iterator[Image.Image]:
    """The frames: the scenery is drawn once, the tokens and their tails over it each time."""
    sheet = Sheet(4.0, 4.0, dpi=PIXELS / 4.0)
    canvas = FigureCanvasAgg(sheet)
    ax = sheet.add_subplot()
    draw_scenery(ax, view)
    _limits(ax, view)
    ax.set_title(title)
    size = 26 if view.points.shape[1] <= 300 else 10
    tails = ax.add_collection(LineCollection([], lw=1.0, zorder=2, animated=True))
    dots = ax.scatter([], [], s=size, linewidths=0, zorder=3, animated=True)
    clock = ax.text(0.02, 0.02, "", transform=ax.transAxes, color=INK, animated=True, fontsize=9)
    canvas.draw()
    sheet.set_layout_engine("none")
    background = canvas.copy_from_bbox(sheet.bbox)
    for k, time in enumerate(times):
        canvas.restore_region(background)
        _move(view, k, colours, tails, dots)
        clock.set_text(time)
        for artist in (tails, dots, clock):
            ax.draw_artist(artist)
        yield Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _limits(ax: Axes, view: View) -> None:
    """Room for all frames, where the scenery has not set it."""
    if view.kind in ("plane", "pca", "line"):
        low, high = view.points.min(axis=(0, 1)), view.points.max(axis=(0, 1))
        ax.update_datalim([low, high])
        ax.autoscale_view()


def _move(view: View, k: int, colours: np.ndarray, tails: LineCollection, dots) -> None:
    behind = (view.depth[k] < 0) & (view.kind == "sphere")
    order = np.argsort(view.depth[k], kind="stable")
    shades = np.concatenate([colours[:, :3], np.where(behind, 0.3, 1.0)[:, None]], 1)
    dots.set(offsets=view.points[k, order], facecolors=shades[order])
    pale = shades * (1, 1, 1, 0.35)
    tails.set(segments=list(view.points[max(0, k - TAIL) : k + 1].swapaxes(0, 1)), colors=pale)
