"""Write frames as an MP4 video, with ffmpeg."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np

REST = 1.5  # seconds for which the last frame is shown


def ffmpeg() -> str:
    """Return the path of ffmpeg, or raise ValueError if it is not installed."""
    found = shutil.which("ffmpeg")
    if found is None:
        raise ValueError(
            'an animation as ".mp4" needs ffmpeg, which is not on the PATH: install it, or use ".gif" or ".html"'
        )
    return found


def write_movie(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write 8-bit frames (h, w, 3), with even h and w, as an MP4 video."""
    program, process, frame = ffmpeg(), None, None
    for frame in frames:
        if process is None:
            height, width = frame.shape[:2]
            process = subprocess.Popen(_command(program, width, height, fps, path), stdin=-1, stderr=-1, stdout=-3)
        try:
            process.stdin.write(np.ascontiguousarray(frame).tobytes())  # type: ignore[union-attr]
        except BrokenPipeError:
            break
    if process is None or frame is None:
        return
    rest = np.ascontiguousarray(frame).tobytes() * round(REST * fps)
    _, stderr = process.communicate(rest)
    if process.returncode != 0:
        last = stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise OSError(f"ffmpeg failed: {' '.join(last)}")


def _command(program: str, width: int, height: int, fps: float, path: Path) -> list[str]:
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-"]
    film = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    return [program, "-loglevel", "error", "-y", *source, *film, str(path)]
