"""Write frames as a GIF."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image
from scipy.spatial import cKDTree

from .style import INK, LOOSE, PALETTE

REST = 1500.0  # milliseconds for which the last frame is shown


def write_gif(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write (h, w, 3) frames as a GIF that repeats forever."""
    pause, palette = 1000 / fps, _palette()
    nearest = _nearest(palette)
    images = [_indexed(frame, palette, nearest) for frame in frames]
    durations = [pause] * (len(images) - 1) + [max(pause, REST)]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)


def _palette() -> np.ndarray:
    """Return (k, 3) grays, and the colors of tokens in steps from white. One palette for all frames avoids flicker."""
    ramp = lambda color, steps: 1 + steps[:, None] * (np.array(to_rgb(color)) - 1)  # noqa: E731
    grays = np.linspace(0, 1, 48) ** 2  # fine steps near white, for the shading of the sphere
    colors = np.concatenate([ramp(INK, grays), *(ramp(color, np.linspace(0.15, 1, 8)) for color in (*PALETTE, LOOSE))])
    return (255 * colors).round().astype(np.uint8)


def _nearest(palette: np.ndarray) -> np.ndarray:
    """Return (64, 64, 64) the nearest entry of the palette to each color, in six bits a channel; white stays white."""
    level = np.linspace(0, 255, 64)
    cube = np.stack(np.meshgrid(level, level, level, indexing="ij"), -1).reshape(-1, 3)
    _, index = cKDTree(palette.astype(float)).query(cube)
    return index.reshape(64, 64, 64).astype(np.uint8)


def _indexed(frame: np.ndarray, palette: np.ndarray, nearest: np.ndarray) -> Image.Image:
    red, green, blue = np.moveaxis((frame.astype(int) * 63 + 127) // 255, -1, 0)
    image = Image.fromarray(nearest[red, green, blue])
    image.putpalette(palette.tobytes())
    return image
