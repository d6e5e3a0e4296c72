"""Figure of a run of equiangular tokens."""

import numpy as np

from ..results import Trajectory
from .style import INK, PALETTE, WIDTH, Sheet, styled, write_title
from .time_axis import draw_events, draw_time_axis


@styled
def equiangular_sheet(traj: Trajectory, title: str | None = None, width: float = WIDTH, height: float = 2.8) -> Sheet:
    """Draw the cosine rho over time, and the gap `1 - rho` on a logarithmic scale (with the radius if it changes)."""
    data = traj.dataset
    times, rho, gap, radius = (data[name].values for name in ("time", "rho", "gap", "radius"))
    sheet = Sheet(width, min(height, 2.8))
    left, right = sheet.subplots(1, 2)
    left.plot(times, rho, color=PALETTE[0])
    left.set_ylabel(r"cosine $\rho$")
    left.set_ylim(min(0, 1.05 * rho.min()), 1.03)
    draw_time_axis(traj, left, times)
    draw_events(traj, left)
    write_title(left, f"{data.attrs['n']} equiangular tokens", "a")
    shown = gap > 0
    right.semilogy(times[shown], gap[shown], color=PALETTE[0], label=r"$1-\rho$")
    right.set_ylabel(r"$1-\rho$")
    draw_time_axis(traj, right, times)
    write_title(right, "Approach to one cluster", "b")
    if np.ptp(radius) > 0:
        other = right.twinx()
        other.plot(times, radius, color=PALETTE[1], ls="--")
        other.set_ylabel("radius $r$ (dashed)", color=INK)
        other.spines["top"].set_visible(False)
    for ax in (left, right):
        ax.spines["top"].set_visible(False)
        ax.grid(axis="y", lw=0.4, color="#e3e3e3")
    if title:
        sheet.suptitle(title, x=0.01, ha="left", fontsize=10)
    return sheet
