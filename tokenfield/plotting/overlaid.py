"""Overlaid histograms of the cosines of tokens at a few layers, as in Figure 1 of the survey."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from .._shown import shown
from ..results import Trajectory
from .style import one_panel, styled

if TYPE_CHECKING:
    import xarray

BINS = 100
OF_THE_SURVEY = 0, 5, 30, 48


@styled
def cosine_histograms(
    run: "Trajectory | xarray.Dataset",
    layers: Sequence[int] | None = None,
    ax: Axes | None = None,
    width: float = 5.4,
    height: float = 3.4,
) -> Any:
    """Draw histograms of the cosines of all pairs of tokens at a few layers, one over the other.

    Args:
        run: a run of tokens, in layers or in time; or the dataset of a probe, whose histograms are over all texts.
        layers: indices of saved states; by default 0, 5, 30 and 48 for a run of 48 layers, as in Figure 1 of the survey, and
            otherwise the first, the last and two in between.
        ax: matplotlib axes to draw into.
        width, height: of the figure, in inches.

    Returns:
        The figure, or the axes that were given.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PreLN())
        >>> traj = tkf.layers(model, tkf.uniform_sphere(64, 8, seed=0), depth=48)
        >>> tkf.plotting.cosine_histograms(traj)
    """
    chosen = _chosen(layers, _count(run))
    edges, densities, means, names = (_of_run if isinstance(run, Trajectory) else _of_probe)(run, chosen)
    axes, drawn = one_panel(ax, width, height)
    colors = colormaps["viridis_r"](np.linspace(0.1, 0.9, len(chosen)))
    for density, mean, name, color in zip(densities, means, names, colors, strict=True):
        axes.stairs(density, edges, fill=True, color=color, alpha=0.35)
        axes.stairs(density, edges, color=color, lw=1.2, label=f"{name}, mean {mean:.2f}")
    used = np.flatnonzero(densities.sum(0) > 0)
    axes.set(
        xlabel="cosine of two tokens",
        ylabel="density of pairs",
        xlim=(edges[used[0]] - 0.02, edges[used[-1] + 1] + 0.02),
    )
    *others, top = np.sort(densities.max(1))
    axes.set_ylim(0, 1.1 * min(top, 3 * max(others, default=top)))  # cut one high peak, to show the others
    axes.legend(frameon=False)
    return drawn


def _count(run: "Trajectory | xarray.Dataset") -> int:
    """Return the number of saved states; raise ValueError if they have no pairs of tokens."""
    if isinstance(run, Trajectory):
        sizes = run.dataset.sizes
        if run.dataset.attrs["state"] != "Tokens" or sizes["token"] < 2:
            raise ValueError("cosine_histograms needs a run of at least two tokens")
        return len(run.times)
    if "cosine_histogram" not in getattr(run, "data_vars", ()):
        raise ValueError(f"cosine_histograms needs a run of tokens or the dataset of a probe, got {shown(run)}")
    return run.sizes["layer"]


def _chosen(layers: Sequence[int] | None, count: int) -> list[int]:
    last = count - 1
    if layers is None:
        few = sorted({0, round(last / 10), round(0.6 * last), last})
        return list(OF_THE_SURVEY) if last == OF_THE_SURVEY[-1] else few
    given = list(np.atleast_1d(np.asarray(layers)))
    chosen = [int(layer) + count if layer < 0 else int(layer) for layer in given]
    if not chosen or not all(0 <= layer <= last for layer in chosen):
        raise ValueError(f"layers must be numbers from 0 to {last}, got {shown(layers)}")
    return chosen


def _of_run(traj: Trajectory, chosen: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Return edges, densities, means and names for the pairs of a run; always for cosines, in any space."""
    from ..observables import pairwise_cosines

    edges = np.linspace(-1, 1, BINS + 1)
    cosines = [np.asarray(pairwise_cosines(traj.state(layer))) for layer in chosen]
    densities = np.stack([np.histogram(each, edges, density=True)[0] for each in cosines])
    layered = "depth" in traj.config
    names = [f"layer {layer}" if layered else f"t = {traj.times[layer]:.3g}" for layer in chosen]
    return edges, densities, np.array([each.mean() for each in cosines]), names


def _of_probe(dataset: "xarray.Dataset", chosen: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Return the same from the histograms of a probe, over all texts."""
    edges = dataset["bin_edges"].values
    counts = dataset["cosine_histogram"].sum("text").transpose("layer", "bin").values[chosen]
    densities = counts / np.maximum(counts.sum(1, keepdims=True), 1) / np.diff(edges)
    means = dataset["mean_cosine"].mean("text").values[chosen]
    return edges, densities, means, [f"layer {int(dataset['layer'][layer])}" for layer in chosen]
