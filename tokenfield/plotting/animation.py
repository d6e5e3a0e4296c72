"""Moving tokens."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from PIL import Image
from scipy.spatial import cKDTree

from .._check import count, positive
from .._files import replacing
from ..results import Trajectory
from .frames import areas, final_clusters, read_frames
from .projection import View, view_of
from .scenery import draw_scenery
from .style import INK, LOOSE, PALETTE, Sheet, styled, token_colours
from .time_axis import time_text

MOST_MOVING = 1000
PIXELS = 480
TAIL = 6  # frames that a token's tail goes back


@styled
def animate(
    traj: Trajectory, path: str | os.PathLike, fps: float = 20, frames: int | None = None, tol: float = 1e-3
) -> Path:
    """Write an animation of the tokens as a GIF: on the circle or sphere, in the plane or space, or their PCA.

    Colours are final clusters, areas of marks are weights, and short tails show where tokens come from. Frames are saved
    states, evenly chosen; more states make it smoother. Of more than 1000 tokens a random sample (always the same one) is
    shown.

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
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.animate(traj, "run.gif", fps=20)
    """
    target = Path(path)
    if target.suffix.lower() != ".gif":
        raise ValueError(f'path must end in ".gif", got {str(path)[-80:]!r}')
    pause = 1000 / positive("fps", fps)
    shown = read_frames(traj, 100 if frames is None else count("frames", frames)).sample(MOST_MOVING)
    colours = token_colours(final_clusters(shown, tol)[0])
    title = view_of(shown).title + (f" ({shown.share})" if shown.share else "")
    times = [time_text(traj, time) for time in shown.times]
    palette = _palette()
    nearest = _nearest(palette)
    images = [
        _indexed(frame, palette, nearest) for frame in _images(view_of(shown), colours, shown.weights, title, times)
    ]
    durations = [pause] * (len(images) - 1) + [max(pause, 1500.0)]  # rest at the end
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part:
        images[0].save(part, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    return target


def _palette() -> np.ndarray:
    """(k, 3) greys, and every colour of tokens in steps from white; one palette for all frames cannot flicker."""
    ramp = lambda colour, steps: 1 + steps[:, None] * (np.array(to_rgb(colour)) - 1)  # noqa: E731
    greys = np.linspace(0, 1, 48) ** 2  # fine steps near white, for the shade of the sphere
    colours = np.concatenate(
        [ramp(INK, greys), *(ramp(colour, np.linspace(0.15, 1, 8)) for colour in (*PALETTE, LOOSE))]
    )
    return (255 * colours).round().astype(np.uint8)


def _nearest(palette: np.ndarray) -> np.ndarray:
    """(64, 64, 64) the nearest entry of the palette to each colour, in six bits a channel; white stays white."""
    level = np.linspace(0, 255, 64)
    cube = np.stack(np.meshgrid(level, level, level, indexing="ij"), -1).reshape(-1, 3)
    _, index = cKDTree(palette.astype(float)).query(cube)
    return index.reshape(64, 64, 64).astype(np.uint8)


def _indexed(frame: np.ndarray, palette: np.ndarray, nearest: np.ndarray) -> Image.Image:
    red, green, blue = np.moveaxis((frame.astype(int) * 63 + 127) // 255, -1, 0)
    image = Image.fromarray(nearest[red, green, blue])
    image.putpalette(palette.tobytes())
    return image


def _images(view: View, colours: np.ndarray, weights: np.ndarray, title: str, times: list[str]) -> Iterator[np.ndarray]:
    """The frames: the scenery is drawn once, the tokens and their tails over it each time."""
    sheet = Sheet(4.0, 4.0, dpi=PIXELS / 4.0)
    canvas = FigureCanvasAgg(sheet)
    ax = sheet.add_subplot()
    draw_scenery(ax, view)
    _limits(ax, view)
    ax.set_title(title)
    size = 26 if view.points.shape[1] <= 300 else 10
    tails = ax.add_collection(LineCollection([], lw=1.0, zorder=2, animated=True))
    dots = ax.scatter([], [], linewidths=0, zorder=3, animated=True)
    clock = ax.text(1.0, 1.02, "", transform=ax.transAxes, ha="right", animated=True)
    canvas.draw()
    sheet.set_layout_engine("none")
    background = canvas.copy_from_bbox(sheet.bbox)
    for k, time in enumerate(times):
        canvas.restore_region(background)
        _move(view, k, colours, size * areas(weights[k]), tails, dots)
        clock.set_text(time)
        for artist in (tails, dots, clock):
            ax.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba())[..., :3]


def _limits(ax: Axes, view: View) -> None:
    """Room for all frames, where the scenery has not set it."""
    if view.kind in ("plane", "pca", "line"):
        low, high = view.points.min(axis=(0, 1)), view.points.max(axis=(0, 1))
        ax.update_datalim([low, high])
        ax.autoscale_view()


def _move(view: View, k: int, colours: np.ndarray, sizes: np.ndarray, tails: LineCollection, dots) -> None:
    behind = (view.depth[k] < 0) & (view.kind == "sphere")
    order = np.argsort(view.depth[k], kind="stable")
    shades = np.concatenate([colours[:, :3], np.where(behind, 0.3, 1.0)[:, None]], 1)
    dots.set(offsets=view.points[k, order], facecolors=shades[order], sizes=sizes[order])
    pale = shades * (1, 1, 1, 0.35)
    tails.set(segments=list(view.points[max(0, k - TAIL) : k + 1].swapaxes(0, 1)), colors=pale)
