"""The attention heads of a real model: sharpness, entropy, where attention goes, and the Lipschitz lower bound."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from .style import INK, PALETTE, WIDTH, Sheet, styled, write_title

if TYPE_CHECKING:
    import xarray


@styled
def probe_heads(dataset: "xarray.Dataset", width: float = WIDTH, height: float = 5.0) -> Sheet:
    """Draw four numbers of every head, each the median over texts (dots: heads; line: median of a block):

    gamma = beta/log n against the critical 1/(1-rho) of its layer (FORMULAS §7); the entropy of attention as a
    fraction of its largest value log n; the mass on the token itself and on the first token; R² gamma of the Lipschitz bound.

    Args:
        dataset: the dataset of a probe of a model whose attention could be extracted.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting import probe_heads
        >>> probe_heads(result.dataset).savefig("heads.png")  # doctest: +SKIP
    """
    sheet = Sheet(width, height)
    (sharp, spread), (mass, worst) = sheet.subplots(2, 2, sharex=True)
    block = dataset["block"].values
    _dots(sharp, block, _median(dataset, "gamma"), PALETTE[0], "heads")
    sharp.plot(block, dataset["critical_gamma"].median("text"), color=PALETTE[1], label="critical, 1/(1−ρ)")
    sharp.set(ylabel=r"$\gamma=\beta\,/\,\log n$")
    sharp.set_yscale("symlog", linthresh=1.0)
    most = np.log(dataset["tokens"])
    share = (dataset["entropy"] / most).median("text").transpose("block", "head").values
    _dots(spread, block, share, PALETTE[2], "heads")
    spread.set(ylabel=r"entropy $/\,\log n$", ylim=(-0.03, 1.05))
    _dots(mass, block - 0.12, _median(dataset, "self_mass"), PALETTE[0], "on itself")
    _dots(mass, block + 0.12, _median(dataset, "first_mass"), PALETTE[4], "on the first token")
    mass.set(ylabel="attention mass", ylim=(-0.03, 1.2), yticks=np.linspace(0, 1, 6))
    _dots(worst, block, _median(dataset, "r2gamma"), PALETTE[3], "heads")
    worst.axhspan(1e2, 1e3, color=INK, alpha=0.08, lw=0, label="quoted for practice")
    worst.set(ylabel=r"$R^2\gamma$ of the lower bound", yscale="log")
    titles = ("sharpness and threshold", "spread of attention", "where attention goes", "Lipschitz lower bound")
    for ax, title, letter in zip((sharp, spread, mass, worst), titles, "abcd", strict=True):
        write_title(ax, title, letter)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.margins(y=0.12)
    for ax in (sharp, mass, worst):
        ax.legend(loc="best", ncols=2)
    for ax in (mass, worst):
        ax.set_xlabel("block")
    return sheet


def _median(dataset: "xarray.Dataset", name: str) -> np.ndarray:
    return dataset[name].median("text").transpose("block", "head").values


def _dots(ax: Axes, x: np.ndarray, values: np.ndarray, color: str, label: str) -> None:
    ax.plot(np.repeat(x, values.shape[1]), values.ravel(), ".", color=color, alpha=0.45, ms=5, mew=0, label=label)
    ax.plot(x, np.nanmedian(values, axis=1), color=color, lw=1.1)
