"""Figure of a run of a Gaussian."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from ..results import Trajectory
from .style import PALETTE, WIDTH, Sheet, styled, write_title
from .time_axis import draw_events, draw_time_axis

ELLIPSES = 12
MOST_LINES = 12
FLOOR = 1e-16  # eigenvalues below this fraction of the largest one are rounding errors


@styled
def gaussian_sheet(traj: Trajectory, title: str | None = None, width: float = WIDTH, height: float = 3.2) -> Sheet:
    """Draw ellipses of one standard deviation over time (in the plane) or the mean, and the eigenvalues of Sigma."""
    data = traj.dataset
    blown = any(event.kind == "blow_up" for event in traj.events)  # the last state is off the scale
    times, mean, cov = (data[name].values[: -1 if blown else None] for name in ("time", "mean", "cov"))
    sheet = Sheet(width, min(height, 3.2))
    left, right = sheet.subplots(1, 2)
    if mean.shape[1] == 2:
        _ellipses(left, times, mean, cov, sheet)
    else:
        left.plot(times, mean[:, :MOST_LINES])
        left.set_ylabel(r"coordinates of the mean $\alpha$")
        draw_time_axis(traj, left, times)
        write_title(left, "Mean" + (f" (first {MOST_LINES} coordinates)" if mean.shape[1] > MOST_LINES else ""), "a")
    eigenvalues = np.linalg.eigvalsh(cov)[:, ::-1]
    floor = FLOOR * eigenvalues.max()
    colors = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, eigenvalues.shape[1]))
    for k, color in enumerate(colors):
        shown = eigenvalues[:, k] > floor
        right.semilogy(times[shown], eigenvalues[shown, k], color=color if len(colors) > 7 else PALETTE[k])
    right.set_ylabel(r"eigenvalues of $\Sigma$")
    draw_time_axis(traj, right, times)
    draw_events(traj, right)
    write_title(right, "Covariance", "b")
    right.spines[["top", "right"]].set_visible(False)
    right.grid(axis="y", lw=0.4, color="#e3e3e3")
    if title:
        sheet.suptitle(title, x=0.01, ha="left", fontsize=10)
    return sheet


def _ellipses(ax: Axes, times: np.ndarray, mean: np.ndarray, cov: np.ndarray, sheet: Sheet) -> None:
    chosen = np.unique(np.linspace(0, len(times) - 1, ELLIPSES).round().astype(int))
    last = max(times[-1], np.finfo(float).tiny)
    colors = matplotlib.colormaps["viridis"]
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for k in chosen:
        values, vectors = np.linalg.eigh(cov[k])
        sizes = 2 * np.sqrt(np.maximum(values, 0))
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        patch = Ellipse(tuple(mean[k]), sizes[1], sizes[0], angle=angle, fill=False, lw=1.2)
        patch.set_edgecolor(colors(0.9 * times[k] / last))
        ax.add_patch(patch)
        deviation = np.sqrt(np.maximum(np.diag(cov[k]), 0))
        low, high = np.minimum(low, mean[k] - deviation), np.maximum(high, mean[k] + deviation)
    ax.plot(mean[:, 0], mean[:, 1], color="#707070", lw=0.8)
    center, half = (low + high) / 2, 0.54 * max((high - low).max(), np.finfo(float).tiny)
    ax.set_xlim(center[0] - half, center[0] + half)
    ax.set_ylim(center[1] - half, center[1] + half)
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel("$x_1$")
    ax.set_ylabel("$x_2$")
    write_title(ax, "One standard deviation around the mean", "a")
    scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, last / 0.9), "viridis")
    bar = sheet.colorbar(scale, ax=ax, fraction=0.05, pad=0.02)
    bar.ax.set_ylim(0, last)
    bar.set_label("time $t$")
