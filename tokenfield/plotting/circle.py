"""Angles of tokens in the plane against time."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ..results import Trajectory
from .frames import final_clusters, read_frames
from .style import cluster_heading, cluster_marks, one_panel, styled, token_colors
from .time_axis import draw_events, draw_time_axis

MOST_LINES = 512
QUARTERS = ("0", r"$\pi/2$", r"$\pi$", r"$3\pi/2$")  # labels of the axis of angles, modulo 2 pi


@styled
def space_time(
    traj: Trajectory, tol: float = 1e-3, width: float = 5.0, height: float = 3.2, ax: Axes | None = None
) -> Any:
    """Draw the angle of every token against time, for tokens in the plane. It shows merges, and the long times between them.

    The circle is cut at the widest gap between the final tokens, so that no final cluster is cut in two. Times on a
    logarithmic grid have a logarithmic axis. If there are more than 512 tokens, a random sample (always the same one) is shown.

    Args:
        traj: a run of tokens with d = 2.
        tol: tolerance of the final clusters, which give the colors.
        width, height: of the figure in inches, if there is no `ax`.
        ax: your own matplotlib axes; drawn without a legend of the clusters.

    Returns:
        A matplotlib figure; or `ax`, if it is given.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 2, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.space_time(traj).savefig("circle.pdf")
    """
    shown = read_frames(traj, most=len(traj.times)).sample(MOST_LINES)
    if shown.d != 2:
        raise ValueError(f"space_time draws the angles of tokens in the plane and needs d = 2, got d = {shown.d}")
    groups, _ = final_clusters(shown, tol)
    panel, drawn = one_panel(ax, width, height)
    angles = np.arctan2(shown.x[..., 1], shown.x[..., 0])
    cut = widest_gap(angles[-1])
    pieces = [unbroken(shown.times, token) for token in (cut + np.mod(angles - cut, 2 * np.pi)).T]
    colors = np.repeat(token_colors(groups), [len(lines) for lines in pieces], axis=0)
    colors[:, 3] = np.clip(6 / np.sqrt(shown.n), 0.35, 0.9)
    panel.add_collection(LineCollection([line for lines in pieces for line in lines], colors=colors, lw=0.9))
    _angle_axis(panel, cut)
    draw_time_axis(traj, panel, shown.times)
    draw_events(traj, panel)
    panel.set_title(
        ("Tokens on the circle" if shown.spherical else "Directions of tokens")
        + f" ({shown.share})" * bool(shown.share)
    )
    if ax is None:  # in the user's axes it would cover the lines, or another panel
        panel.legend(
            handles=cluster_marks(groups, shown.weights[-1]),
            title=cluster_heading(groups),
            title_fontsize=8,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
        )
    return drawn


def widest_gap(angles: np.ndarray) -> float:
    """Return the middle, in [-pi, pi), of the widest gap between angles on the circle."""
    ordered = np.sort(angles)
    gaps = np.diff(ordered, append=ordered[0] + 2 * np.pi)
    widest = int(np.argmax(gaps))
    return float(np.mod(ordered[widest] + gaps[widest] / 2 + np.pi, 2 * np.pi) - np.pi)


def unbroken(times: np.ndarray, angles: np.ndarray) -> list[np.ndarray]:
    """Return a line over time in pieces, cut where it passes from one end of the interval of angles to the other."""
    jumps = np.flatnonzero(np.abs(np.diff(angles)) > np.pi) + 1
    return np.split(np.stack([times, angles], 1), jumps)


def _angle_axis(ax: Axes, cut: float) -> None:
    ticks = [k for k in range(-2, 7) if cut <= k * np.pi / 2 <= cut + 2 * np.pi]
    ax.set(ylim=(cut, cut + 2 * np.pi), ylabel="angle (radians)")
    ax.set_yticks([k * np.pi / 2 for k in ticks], [QUARTERS[k % 4] for k in ticks])
