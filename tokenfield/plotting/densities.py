"""Figure of a run of a density."""

import numpy as np

from ..results import Trajectory
from .style import PALETTE, WIDTH, Sheet, styled, write_title
from .time_axis import draw_time_axis

MOST = 200  # maximum number of times that are drawn


@styled
def density_sheet(traj: Trajectory, title: str | None = None, width: float = WIDTH, height: float = 3.2) -> Sheet:
    """Draw the density over position and time (on the 2-sphere the final density), and its spectrum by degree at some times."""
    times, final, kind = traj.times, traj.final, traj.dataset.attrs["state"]
    sheet = Sheet(width, min(height, 3.2))
    left, right = sheet.subplots(1, 2, width_ratios=(1.25, 1))
    if kind == "SphereDensity":
        p, z = np.linspace(-np.pi, np.pi, 181), np.linspace(-1, 1, 121)
        side = np.sqrt(1 - z**2)[:, None]
        points = np.stack([side * np.cos(p), side * np.sin(p), np.broadcast_to(z[:, None], (121, 181))], axis=-1)
        picture = left.pcolormesh(
            p, z, final.density(points.reshape(-1, 3)).reshape(121, 181), cmap="viridis", rasterized=True
        )
        left.set(xlabel="longitude", ylabel="sine of latitude")
        write_title(left, f"Density at t = {times[-1]:.4g}", "a")
    else:
        shown = np.unique(np.linspace(0, len(times) - 1, MOST).round().astype(int))
        place, points, label = _line(kind, final.d)
        values = np.stack([traj.state(int(k)).density(points) for k in shown])
        top = max(1.5, float(np.quantile(values, 0.995)))
        picture = left.pcolormesh(times[shown], place, values.T, cmap="viridis", vmin=0, vmax=top, rasterized=True)
        left.set_ylabel(label)
        draw_time_axis(traj, left, times)
        write_title(left, "Density", "a")
    sheet.colorbar(picture, ax=left, label="density (uniform: 1)", extend="max")
    _spectra(traj, right)
    if title:
        sheet.suptitle(title, x=0.01, ha="left", fontsize=10)
    return sheet


def _line(kind: str, d: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return positions, the points that they represent, and their label."""
    if kind == "CircleDensity":
        angle = np.linspace(-np.pi, np.pi, 361)
        return angle, np.stack([np.cos(angle), np.sin(angle)], axis=1), "angle"
    t = np.linspace(-1, 1, 241)
    side = np.sqrt(1 - t**2)[:, None]
    return t, np.concatenate([side, np.zeros((len(t), d - 2)), t[:, None]], axis=1), r"$\langle x, e\rangle$"


def _spectra(traj: Trajectory, ax) -> None:
    """Draw the root sum of squares of the coefficients of each degree, at five times."""
    for k, color in zip(np.linspace(0, len(traj.times) - 1, 5).round().astype(int), PALETTE, strict=False):
        state = traj.state(int(k))
        degree = np.asarray(state.harmonics.degree).astype(int)
        size = np.sqrt(np.bincount(degree[degree >= 0], np.asarray(state.coefficients)[degree >= 0] ** 2))
        ax.semilogy(np.arange(len(size)), np.maximum(size, 1e-17), color=color, lw=1.2, label=f"{traj.times[k]:.3g}")
    ax.set(xlabel="degree", ylabel="size", ylim=(1e-16, None))
    ax.legend(title="t", frameon=False, fontsize=7)
    write_title(ax, "Spectrum", "b")
