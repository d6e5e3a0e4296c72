"""Cosines between the tokens of a real model, layer by layer, compared with theory."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.ticker import MaxNLocator

from .style import DENSITY, GRAY, INK, PALETTE, Sheet, one_panel, styled, write_title

if TYPE_CHECKING:
    import xarray

SHOWN = 0.05, 0.95  # the band over texts


@styled
def probe_cosines(dataset: "xarray.Dataset", width: float = 7.1, height: float = 3.4) -> Sheet:
    """Draw the distribution and the mean of the cosines of all pairs of tokens at each layer; pairs with a special token, and
    all pairs with random weights, have their own panels.

    Each column is the histogram of one hidden state, over pairs i ≠ j of real tokens of all texts. All panels share one scale.

    Args:
        dataset: the dataset of a probe.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting import probe_cosines
        >>> probe_cosines(result.dataset).savefig("cosines.png")  # doctest: +SKIP
    """
    shown = cosine_panels(dataset)
    sheet = Sheet(width if len(shown) > 1 else 0.62 * width, height)
    axes = np.atleast_1d(sheet.subplots(1, len(shown), sharey=True))
    edges = dataset["bin_edges"].values
    densities = [_density(dataset[histogram], edges) for histogram, _, _ in shown]
    # One layer with all pairs in a bin must not hide the others.
    norm = PowerNorm(0.5, 0, max(float(np.median(density.max(1))) for density in densities))
    for ax, density, (_, mean, title), letter in zip(axes, densities, shown, "abc", strict=False):
        drawn = _spread(ax, dataset, density, mean, norm)
        ax.set_xlabel("layer (0: embeddings)")
        write_title(ax, title if len(shown) > 1 else "", letter if len(shown) > 1 else "")
    used = np.flatnonzero(sum(density.sum(0) for density in densities) > 0)
    axes[0].set(ylabel="cosine of two tokens", ylim=(min(0.0, edges[used[0]]) - 0.02, 1.02))
    sheet.colorbar(drawn, ax=list(axes), label="share of pairs per unit of cosine", pad=0.01, extend="max")
    return sheet


def cosine_panels(dataset: "xarray.Dataset") -> list[tuple[str, str, str]]:
    """Return the histogram, the mean and the title of each panel that the dataset has numbers for."""
    panels = [("cosine_histogram", "mean_cosine", "all pairs")]
    if "special_histogram" in dataset and float(dataset["special_histogram"].sum()) > 0:
        panels.append(("special_histogram", "special_cosine", "with a special token"))
    if "null_cosine_histogram" in dataset:
        panels.append(("null_cosine_histogram", "null_mean_cosine", "all pairs, random weights"))
    return panels


def _density(histogram: "xarray.DataArray", edges: np.ndarray) -> np.ndarray:
    """Return (layers, bins) counts over all texts as a density."""
    counts = histogram.sum("text").transpose("layer", "bin").values
    return counts / np.maximum(counts.sum(1, keepdims=True), 1) / np.diff(edges)


def _spread(ax: Axes, dataset: "xarray.Dataset", density: np.ndarray, mean: str, norm: PowerNorm) -> Any:
    edges, layers = dataset["bin_edges"].values, dataset["layer"].values
    places = np.append(layers - 0.5, layers[-1] + 0.5)
    shown = np.ma.masked_equal(density.T, 0)
    drawn = ax.pcolormesh(places, edges, shown, cmap=DENSITY, norm=norm, rasterized=True)
    ax.plot(layers, dataset[mean].mean("text"), color=PALETTE[1], lw=1.4, marker="o", ms=2.5, label="mean")
    ax.set(xlim=(places[0], places[-1]))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
    return drawn


@styled
def probe_theory(dataset: "xarray.Dataset", width: float = 5.4, height: float = 3.7, ax: Axes | None = None) -> Any:
    """Draw the mean cosine over layers: measured, with a band over texts; predicted; and with random weights (FORMULAS §7).

    Args:
        dataset: the dataset of a probe.
        width, height: of the figure in inches, if there is no `ax`.
        ax: your own matplotlib axes.

    Returns:
        A matplotlib figure; or `ax`, if it is given.

    Example:
        >>> from tokenfield.plotting import probe_theory
        >>> probe_theory(result.dataset).savefig("theory.png")  # doctest: +SKIP
    """
    panel, drawn = one_panel(ax, width, height)
    panel.set(xlabel="layer (0: embeddings)", ylabel="mean cosine of two tokens")
    layer = dataset["layer"].values
    if "null_mean_cosine" in dataset:
        _band(panel, layer, dataset["null_mean_cosine"], GRAY, "random weights", marker="s")
    _band(panel, layer, dataset["mean_cosine"], PALETTE[0], "measured, all tokens", marker="o")
    plain = dataset["mean_cosine_no_special"]
    if float(np.nanmax(np.abs(plain - dataset["mean_cosine"]), initial=0)) > 0.01:
        panel.plot(
            layer, plain.mean("text"), color=PALETTE[5], lw=1.2, marker="o", ms=2.5, label="without special tokens"
        )
    rule = dataset.attrs.get("predicted_norm", "")
    curves = {
        "predicted_cosine": (f"theory, {rule}, V = I", PALETTE[1], "-"),
        "predicted_cosine_flow": ("theory, flow", PALETTE[1], (0, (4, 2))),
        "predicted_cosine_rotated": ("theory, V a random rotation", PALETTE[3], (0, (1, 1.2))),
    }
    for name, (label, color, style) in curves.items():
        if name in dataset:
            panel.plot(layer, dataset[name], color=color, ls=style, lw=1.4, label=label)
    low = min(0.0, *(float(line.get_ydata().min()) for line in panel.lines))
    panel.set(xlim=(layer[0], layer[-1]), ylim=(low - 0.02, 1.03))
    panel.axhline(0, color=INK, lw=0.5, zorder=0)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if ax is None:
        drawn.legend(loc="outside lower center", ncols=2)
    else:
        panel.legend(loc="best")
    return drawn


def _band(ax: Axes, x: np.ndarray, values: Any, color: str, label: str, marker: str = "") -> None:
    """Draw the mean over texts, and a band that contains 90 % of them."""
    low, high = np.nanquantile(values.transpose("text", ...).values, SHOWN, axis=0)
    ax.fill_between(x, low, high, color=color, alpha=0.2, lw=0)
    ax.plot(x, values.mean("text"), color=color, marker=marker, ms=3, label=label)
