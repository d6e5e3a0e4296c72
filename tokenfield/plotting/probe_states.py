"""Energy, rank, clusters and lengths of the tokens of a real model at each layer."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from .probe import _band
from .style import GRAY, PALETTE, WIDTH, Sheet, styled, write_title
from .ticks import plain_log_ticks

if TYPE_CHECKING:
    import xarray

PANELS = {
    "normalized_energy": "normalized energy at the layer's own β",
    "effective_rank": "effective rank",
    "largest_cluster": "largest cluster, share of tokens",
    "mean_length": "mean length of a token",
}


@styled
def probe_layers(dataset: "xarray.Dataset", width: float = WIDTH, height: float = 4.8) -> Sheet:
    """Draw energy, effective rank, largest cluster and length of tokens over layers, with a band over texts.

    In gray, the same architecture with random weights. The energy of a layer is at that layer's own beta.

    Args:
        dataset: the dataset of a probe.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting import probe_layers
        >>> probe_layers(result.dataset).savefig("layers.png")  # doctest: +SKIP
    """
    names = [name for name in PANELS if name in dataset and np.isfinite(dataset[name]).any()]
    rows = -(-len(names) // 2)
    sheet = Sheet(width, height * rows / 2)
    axes = sheet.subplots(rows, 2, sharex=True, squeeze=False).ravel()
    layer = dataset["layer"].values
    for index, (ax, name) in enumerate(zip(axes, names, strict=False)):
        share = 1 / dataset["tokens"] if name == "largest_cluster" else 1.0
        if f"null_{name}" in dataset:
            _band(ax, layer, dataset[f"null_{name}"] * share, GRAY, "random weights", "s")
        _band(ax, layer, dataset[name] * share, PALETTE[index], "measured", "o")
        write_title(ax, PANELS[name], "abcd"[index])
        ax.set(xlim=(layer[0], layer[-1]))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if name == "mean_length":
            ax.set_yscale("log")
            plain_log_ticks(ax.yaxis)
        if name == "largest_cluster":
            ax.set_ylim(-0.03, 1.05)
        ax.legend(loc="best")
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    for ax in axes[max(0, len(names) - 2) : len(names)]:
        ax.set_xlabel("layer (0: embeddings)")
    return sheet
