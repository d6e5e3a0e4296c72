"""Local Lipschitz constants of a real model's attention layers against the number of tokens."""

from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.ticker import MaxNLocator

from .style import GRAY, INK, PALETTE, WIDTH, Sheet, styled, write_title
from .ticks import plain_log_ticks

if TYPE_CHECKING:
    import xarray

MOST_LINES = 6


@styled
def probe_smoothness(dataset: "xarray.Dataset", width: float = WIDTH, height: float = 3.9) -> Sheet:
    """Draw local Lipschitz constants against the number of tokens, and their fitted powers of n (FORMULAS §6).

    Left, constants of some blocks on logarithmic axes: samples, geometric means and fitted powers, with the upper bound for
    their tokens and, if they were measured, the worst tokens found. Right, the power of n of every block with its confidence
    interval; dashed lines are the reported 1/4 and the worst case 1/2.

    Args:
        dataset: the dataset of a probe with `lipschitz`.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting import probe_smoothness
        >>> probe_smoothness(result.dataset).savefig("smoothness.png")  # doctest: +SKIP
    """
    sheet = Sheet(width, height)
    left, right = sheet.subplots(1, 2)
    blocks, n = dataset["block"].values, dataset["length"].values
    measured = np.flatnonzero(np.isfinite(dataset["lipschitz"]).any(("length", "sample")).values)
    shown = measured[np.unique(np.linspace(0, len(measured) - 1, MOST_LINES).round().astype(int))]
    colors = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(shown)))
    for color, block in zip(colors, shown, strict=True):
        values = dataset["lipschitz"].isel(block=block).transpose("length", "sample").values
        left.plot(np.repeat(n, values.shape[1]), values.ravel(), ".", color=color, alpha=0.3, ms=4, mew=0)
        left.plot(
            n, np.exp(np.nanmean(np.log(values), 1)), "o-", color=color, ms=3.5, lw=1.1, label=f"block {blocks[block]}"
        )
    if "lipschitz_upper" in dataset:
        left.plot(
            n, dataset["lipschitz_upper"].isel(block=shown).max("block"), color=GRAY, ls=(0, (4, 2)), label="bound"
        )
    if "lipschitz_worst" in dataset:
        worst = np.exp(np.log(dataset["lipschitz_worst"].isel(block=shown)).mean("block"))
        left.plot(n, worst, "^:", color=PALETTE[1], ms=4, lw=1, label="one head, worst tokens")
    left.set(xscale="log", yscale="log", xlabel="number of tokens n", ylabel="local Lipschitz constant")
    for axis in (left.xaxis, left.yaxis):
        plain_log_ticks(axis, (1, 2, 5) if axis is left.xaxis else (1,))
    sheet.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    power, low, high = (dataset[f"lipschitz_power{part}"].values for part in ("", "_low", "_high"))
    known = np.isfinite(power)
    errors = np.stack([power - low, high - power])[:, known]
    right.errorbar(blocks[known], power[known], errors, fmt="o", color=PALETTE[0], ms=4, lw=1)
    right.axhline(0.25, color=INK, lw=0.8, ls=(0, (4, 2)), label="reported, $n^{1/4}$")
    right.axhline(0.5, color=PALETTE[1], lw=0.8, ls=(0, (4, 2)), label="worst case, $n^{1/2}$")
    low, high = min(0.0, float(np.nanmin(low, initial=0))), max(0.5, float(np.nanmax(high, initial=0)))
    right.set(xlabel="block", ylabel="power of n", ylim=(max(low, -0.5) - 0.03, min(high, 1.5) + 0.14))
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.legend(loc="upper center", ncols=2, fontsize=7)
    write_title(left, "constants on real text", "a")
    write_title(right, "fitted power, 95 %", "b")
    return sheet
