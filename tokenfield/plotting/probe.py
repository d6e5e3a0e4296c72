"""Cosines between the tokens of a real model, layer by layer, and theory over them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.ticker import MaxNLocator

from .style import DENSITY, GREY, INK, PALETTE, Sheet, styled, write_title

if TYPE_CHECKING:
    import xarray

SHOWN = 0.05, 0.95  # the band over texts


@styled
def probe_cosines(dataset: "xarray.Dataset", width: float = 7.1, height: float = 3.4) -> Sheet:
    """How the cosines of all pairs of tokens are spread at each layer, with their mean; beside it, with random weights.

    Each column is the histogram of one hidden state, over all pairs i ≠ j of real tokens and all texts.

    Args:
        dataset: of a probe.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting import probe_cosines
        >>> probe_cosines(result.dataset).savefig("cosines.png")  # doctest: +SKIP
    """
    both = "null_cosine_histogram" in dataset
    sheet = Sheet(width if both else 0.62 * width, height)
    axes = np.atleast_1d(sheet.subplots(1, 2 if both else 1, sharey=True))
    drawn, lowest = None, 0.0
    for ax, prefix, title in zip(axes, ("", "null_"), ("trained weights", "random weights"), strict=False):
        drawn, least = _spread(ax, dataset, prefix)
        lowest = min(lowest, float(least))
        ax.set_xlabel("layer (0: embeddings)")
        write_title(ax, title if both else "", "ab"[bool(prefix)] if both else "")
    axes[0].set(ylabel="cosine of two tokens", ylim=(lowest - 0.02, 1.02))
    sheet.colorbar(drawn, ax=list(axes), label="pairs per unit of cosine", pad=0.01)
    return sheet


def _spread(ax: Axes, dataset: "xarray.Dataset", prefix: str) -> Any:
    counts = dataset[f"{prefix}cosine_histogram"].sum("text").values
    edges, layers = dataset["bin_edges"].values, dataset["layer"].values
    density = counts / np.maximum(counts.sum(1, keepdims=True), 1) / np.diff(edges)
    places = np.append(layers - 0.5, layers[-1] + 0.5)
    top = float(np.quantile(density.max(1), 0.5))  # one layer with all pairs in a bin must not hide the others
    shown = np.ma.masked_equal(density.T, 0)
    drawn = ax.pcolormesh(places, edges, shown, cmap=DENSITY, norm=PowerNorm(0.5, 0, top), rasterized=True)
    mean = dataset[f"{prefix}mean_cosine"].mean("text")
    ax.plot(layers, mean, color=PALETTE[1], lw=1.4, marker="o", ms=2.5, label="mean")
    ax.set(xlim=(places[0], places[-1]))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
    return drawn, edges[np.flatnonzero(counts.sum(0) > 0)[0]]


@styled
def probe_theory(dataset: "xarray.Dataset", width: float = 5.4, height: float = 3.7) -> Sheet:
    """The mean cosine over layers: measured, with a band over texts; predicted; and with random weights (FORMULAS §7).

    Args:
        dataset: of a probe.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting import probe_theory
        >>> probe_theory(result.dataset).savefig("theory.png")  # doctest: +SKIP
    """
    sheet = Sheet(width, height)
    ax = sheet.add_subplot(xlabel="layer (0: embeddings)", ylabel="mean cosine of two tokens")
    layer = dataset["layer"].values
    if "null_mean_cosine" in dataset:
        _band(ax, layer, dataset["null_mean_cosine"], GREY, "random weights", marker="s")
    _band(ax, layer, dataset["mean_cosine"], PALETTE[0], "measured, all tokens", marker="o")
    plain = dataset["mean_cosine_no_special"]
    if float(np.nanmax(np.abs(plain - dataset["mean_cosine"]), initial=0)) > 0.01:
        ax.plot(layer, plain.mean("text"), color=PALETTE[5], lw=1.2, marker="o", ms=2.5, label="without special tokens")
    rule = dataset.attrs.get("predicted_norm", "")
    curves = {
        "predicted_cosine": (f"theory, {rule}, V = I", PALETTE[1], "-"),
        "predicted_cosine_flow": ("theory, flow", PALETTE[1], (0, (4, 2))),
        "predicted_cosine_turned": ("theory, V turned at random", PALETTE[3], (0, (1, 1.2))),
    }
    for name, (label, colour, style) in curves.items():
        if name in dataset:
            ax.plot(layer, dataset[name], color=colour, ls=style, lw=1.4, label=label)
    low = min(0.0, *(float(line.get_ydata().min()) for line in ax.lines))
    ax.set(xlim=(layer[0], layer[-1]), ylim=(low - 0.02, 1.03))
    ax.axhline(0, color=INK, lw=0.5, zorder=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    sheet.legend(loc="outside lower center", ncols=2)
    return sheet


def _band(ax: Axes, x: np.ndarray, values: Any, colour: str, label: str, marker: str = "") -> None:
    """The mean over texts, and where 90 % of them are."""
    low, high = np.nanquantile(values.transpose("text", ...).values, SHOWN, axis=0)
    ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(x, values.mean("text"), color=colour, marker=marker, ms=3, label=label)
