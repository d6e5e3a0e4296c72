"""Energy and order over time."""

from typing import NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes

from ..observables import energy, mean_distance, order_parameter
from ..observables.interaction import normalized_energy_of
from ..results import Trajectory
from .frames import MOST_PAIRED, Frames, read_frames
from .style import PALETTE, write_title
from .time_axis import draw_events, draw_time_axis

MOST_POINTS = 201

_normalized_energy = jax.jit(normalized_energy_of)  # compiled once for all frames


HEADROOM = 1.22  # the legend is above all curves


class Curve(NamedTuple):
    """A quantity over time, for a panel."""

    label: str
    values: np.ndarray
    color: str


class Curves(NamedTuple):
    """The contents of a panel."""

    title: str
    axis: str
    lines: tuple[Curve, ...]


def energy_panel(traj: Trajectory, ax: Axes, frames: int = MOST_POINTS, letter: str = "") -> Axes:
    """Draw normalized energy `∬ e^{beta(<x,y>-1)} dmu dmu` and order parameter `|∫ x dmu|` over time; dashed lines are events.

    Under norms that move directions, the energy is that of the directions; at beta = 0 it is the centered energy
    `½|∫ x dmu|^2`. If the model has no energy, the panel shows the order parameter and the effective rank as a fraction of
    the largest possible rank; for tokens on the line it shows their standard deviation.

    Args:
        traj: a run of tokens.
        ax: plain matplotlib axes.
        frames: maximum number of saved states to draw.
        letter: a bold letter before the title.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.energy_panel(traj, tkf.plotting.Sheet().add_subplot())
    """
    shown = read_frames(traj, frames)
    curves = curves_of(shown, traj.energy_beta)
    marker = "o" if len(shown.times) < 3 else None
    for curve in curves.lines:
        ax.plot(shown.times, curve.values, color=curve.color, label=curve.label, marker=marker, ms=4)
    _value_axis(ax, curves, shown)
    draw_time_axis(traj, ax, shown.times)
    draw_events(traj, ax)
    write_title(ax, curves.title, letter)
    if len(curves.lines) > 1:
        ax.legend(loc="upper left", ncols=2, borderaxespad=0.1)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def curves_of(shown: Frames, beta: float | None) -> Curves:
    """Return the quantities to draw for a run: energy and order, order and rank, or the spread on the line."""
    every = range(len(shown.times))
    if shown.charted:
        paired = shown.sample(MOST_PAIRED)
        values = np.array([mean_distance(paired.state(k)) for k in every]) if shown.n > 1 else np.zeros(len(every))
        return Curves("Distance of pairs", "mean distance", (Curve("mean distance", values, PALETTE[0]),))
    if shown.d == 1:
        values = np.array([_deviation(x[:, 0], w) for x, w in zip(shown.x, shown.weights, strict=True)])
        return Curves("Spread", "standard deviation", (Curve("standard deviation", values, PALETTE[0]),))
    order = Curve("order parameter", np.array([order_parameter(shown.state(k)) for k in every]), PALETTE[1])
    if beta is None:
        largest = min(shown.n, shown.d)
        rank = np.array([shown.rank(k) for k in every]) / largest
        return Curves("Order and rank", "order, rank", (order, Curve(f"effective rank / {largest}", rank, PALETTE[2])))
    paired = shown.sample(MOST_PAIRED) if beta > 0 else shown
    title = rf"Energy, $\beta$ = {beta:g}" + (f" ({paired.share})" if paired.share else "")
    if beta > 0:
        values = np.array(
            [float(_normalized_energy(x, w, beta)) for x, w in zip(paired.x, paired.weights, strict=True)]
        )
        return Curves(title, "energy, order", (Curve("normalized energy", values, PALETTE[0]), order))
    values = np.array([energy(shown.state(k), 0.0) for k in every])
    return Curves(title, "energy, order", (Curve("centered energy", values, PALETTE[0]), order))


def _deviation(x: np.ndarray, weights: np.ndarray) -> float:
    """Return the standard deviation, without overflow."""
    difference = x - weights @ x
    size = np.abs(difference).max()
    return float(size * np.sqrt(weights @ (difference / size) ** 2)) if size > 0 else 0.0


def _value_axis(ax: Axes, curves: Curves, shown: Frames) -> None:
    values = np.stack([curve.values for curve in curves.lines])
    ax.set_ylabel(curves.axis)
    if shown.d == 1 and values.min() > 0 and values.max() > 100 * values.min():
        ax.set_yscale("log")
    else:
        top = 1.15 * values.max() if values.max() > 0 else 1.0
        top = top if shown.d == 1 or shown.charted else min(1.03, top)
        ax.set_ylim(0, top * HEADROOM if len(curves.lines) > 1 else top)
        ax.set_yticks([tick for tick in ax.get_yticks() if tick <= top])
    ax.grid(axis="y", lw=0.4, color="#e3e3e3")
    ax.set_axisbelow(True)
