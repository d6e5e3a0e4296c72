"""Histograms of pairs of tokens over time."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from ..results import Trajectory
from ..spaces import AbstractSpace
from .frames import MOST_FRAMES, MOST_PAIRED, Frames, read_frames, relative
from .style import DENSITY, INK, write_title
from .time_axis import draw_events, draw_time_axis, is_logarithmic

BINS = 64
FAINTEST = 1e-4  # smaller shares of the pairs have the same, palest color


class PairHistogram(NamedTuple):
    """Shares of pairs of tokens in bins, over time.

    Attributes:
        label: what is counted.
        edges: (b + 1,) edges of the bins.
        shares: (f, b) mass of pairs i < j in each bin, by `w_i w_j`; each row sums to 1.
        mean: (f,) mean over all pairs.
    """

    label: str
    edges: np.ndarray
    shares: np.ndarray
    mean: np.ndarray


def pair_histogram(frames: Frames, bins: int = BINS) -> PairHistogram:
    """Return histograms of cosines if only directions matter (on the sphere, or for growing tokens), otherwise of distances.

    Growing tokens on the line are compared by their distance relative to the root mean square length.
    """
    if frames.n < 2:
        raise ValueError("a histogram of pairs needs at least two tokens")
    if frames.d > 1 and (frames.spherical or frames.growing):
        label, values = "pairwise cosine", np.stack([_cosines(x) for x in frames.x])
        edges = np.linspace(-1, 1, bins + 1)
    elif frames.charted:
        label, values = "pairwise distance", np.stack([_within(frames.space, x) for x in frames.tokens])
        edges = np.linspace(0, values.max() if values.max() > 0 else 1.0, bins + 1)
    else:
        x = relative(frames) if frames.growing else frames.x
        label = "pairwise distance" + (" / r.m.s. length" if frames.growing else "")
        values = np.stack([_distances(each) for each in x])
        edges = np.linspace(0, values.max() if values.max() > 0 else 1.0, bins + 1)
    first, second = np.triu_indices(frames.n, 1)
    mass = frames.weights[:, first] * frames.weights[:, second]
    total = mass.sum(axis=1, keepdims=True)
    mass = np.where(total > 0, mass / np.where(total > 0, total, 1), 1 / mass.shape[1])
    shares = np.stack([np.histogram(row, edges, weights=each)[0] for row, each in zip(values, mass, strict=True)])
    return PairHistogram(label, edges, shares, (values * mass).sum(axis=1))


def _cosines(x: np.ndarray) -> np.ndarray:
    largest = np.abs(x).max()
    x = x / (largest if largest > 0 else 1)
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    theta = x / np.where(lengths > 0, lengths, 1)
    return np.clip((theta @ theta.T)[np.triu_indices(len(x), 1)], -1, 1)


def _within(space: AbstractSpace, x: np.ndarray) -> np.ndarray:
    """Return the distances of all pairs in a space."""
    first, second = np.triu_indices(len(x), 1)
    return np.asarray(space.distance(jnp.asarray(x[first]), jnp.asarray(x[second])))


def _distances(x: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import pdist

    return pdist(x)


def cosine_panel(
    traj: Trajectory, ax: Axes, frames: int = MOST_FRAMES, colorbar_axes: Axes | None = None, letter: str = ""
) -> Axes:
    """Draw the distribution of cosines between tokens over time, as a heat map with a logarithmic color scale.

    White means no pairs; the line is the mean. In R^d, distances are drawn instead of cosines, unless the tokens grow
    without bound. If there are more than 1024 tokens, a random sample (always the same one) is used.

    Args:
        traj: a run of tokens.
        ax: plain matplotlib axes.
        frames: maximum number of saved states to draw.
        colorbar_axes: where the color bar goes; beside the panel by default.
        letter: a bold letter before the title.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.cosine_panel(traj, tkf.plotting.Sheet().add_subplot())
    """
    shown = read_frames(traj, frames).sample(MOST_PAIRED)
    if shown.n < 2:
        ax.text(0.5, 0.5, "one token: no pairs", ha="center", va="center", transform=ax.transAxes)
        ax.set(xticks=(), yticks=())
        if colorbar_axes is not None:
            colorbar_axes.set_axis_off()
        return ax
    histogram = pair_histogram(shown)
    shares = np.ma.masked_equal(histogram.shares, 0)
    norm = LogNorm(FAINTEST, 1)
    colors = colormaps[DENSITY].with_extremes(under=colormaps[DENSITY](0.0), bad="white")
    times = time_edges(shown.times)
    if is_logarithmic(traj.times) and shown.times[0] == 0:  # the first cell begins where the axis does
        times[0] = min(times[0], traj.times[traj.times > 0][0])
    mesh = ax.pcolormesh(times, histogram.edges, shares.T, norm=norm, cmap=colors, rasterized=True, zorder=0)
    ax.plot(shown.times, histogram.mean, color=INK, lw=1.0, zorder=3)
    ax.set(ylabel=histogram.label, ylim=(histogram.edges[0], histogram.edges[-1]))
    draw_time_axis(traj, ax, shown.times if len(shown.times) > 1 else times)
    draw_events(traj, ax, named=False)  # a name would cover data everywhere
    place = {"cax": colorbar_axes} if colorbar_axes is not None else {"ax": ax, "fraction": 0.05, "pad": 0.02}
    bar = ax.figure.colorbar(mesh, extend="min", **place)
    bar.set_label("share of pairs")
    write_title(ax, _title(histogram, shown), letter)
    return ax


def _title(histogram: PairHistogram, shown: Frames) -> str:
    what = "Cosines of pairs" if "cosine" in histogram.label else "Distances of pairs"
    return f"{what}; line: mean" + (f" ({shown.share})" if shown.share else "")


def time_edges(times: np.ndarray) -> np.ndarray:
    """Return edges of cells around times: halfway between them, ending at the first and the last time."""
    if len(times) == 1:
        return times[0] + np.array([-0.5, 0.5])
    edges = np.concatenate([times[:1], (times[1:] + times[:-1]) / 2, times[-1:]])
    if is_logarithmic(times) and times[0] == 0:
        edges[0] = edges[1] / 2
    return edges
