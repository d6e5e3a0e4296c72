"""The local Lipschitz constant against the number of tokens."""

from typing import TYPE_CHECKING

import numpy as np

from .style import GRAY, PALETTE, Sheet, styled
from .ticks import plain_log_ticks

if TYPE_CHECKING:
    from ..lipschitz import Growth


@styled
def growth_figure(
    growths: "dict[str, Growth]", upper: float | None = None, width: float = 4.6, height: float = 3.6
) -> Sheet:
    """Draw local constants on logarithmic axes: every sample, their geometric mean, and the fitted power law (FORMULAS §6).

    With a single data model, known bounds are drawn too: the upper bound for all tokens of at most their length,
    and the lower bound, which some such tokens attain.

    Args:
        growths: results of `tokenfield.lipschitz.growth`, by the label of the data model.
        upper: draw `upper sqrt(n)` too, e.g. as the slope of the worst case.
        width, height: in inches.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.lipschitz.growth(tkf.Softmax(0.5), tkf.lipschitz.data_model("gaussian", d=4), (4, 8), repeats=2)
        >>> found.plot().savefig("growth.png")
    """
    if not growths:
        raise ValueError("growths must hold at least one result of growth(...)")
    sheet = Sheet(width, height)
    ax = sheet.add_subplot()
    for index, (label, found) in enumerate(growths.items()):
        color = PALETTE[index % len(PALETTE)]
        n = np.repeat(found.lengths, found.constants.shape[1])
        ax.plot(n, found.constants.ravel(), ".", color=color, alpha=0.25, ms=4, mew=0)
        ax.plot(found.lengths, np.exp(np.log(found.constants).mean(1)), "o", color=color, ms=4)
        span = np.array([found.lengths.min(), found.lengths.max()], float)
        low, high = found.law.interval
        power = rf"$n^{{{found.law.power:.2f}}}$ [{low:.2f}, {high:.2f}]"
        ax.plot(span, found.law(span), color=color, label=f"{label}: {power}")
    if upper is not None:
        ends = np.array(
            [min(g.lengths.min() for g in growths.values()), max(g.lengths.max() for g in growths.values())]
        )
        ax.plot(ends, upper * np.sqrt(ends), color=GRAY, ls=(0, (4, 2)), lw=1, label=rf"${upper:.3g}\,\sqrt{{n}}$")
    if len(growths) == 1 and (limits := next(iter(growths.values())).bounds):
        lengths = next(iter(growths.values())).lengths
        ax.plot(lengths, [limit.sharp_upper for limit in limits], color=GRAY, label="upper bound")
        ax.plot(lengths, [limit.lower for limit in limits], color=GRAY, ls=":", label="lower bound of the worst tokens")
    unit = next(iter(growths.values())).log_unit / np.log(10)
    label = "local Lipschitz constant" + (f", in units of $10^{{{unit:.4g}}}$" if unit else "")
    ax.set(xscale="log", yscale="log", xlabel="number of tokens n", ylabel=label)
    for axis in (ax.xaxis, ax.yaxis):
        plain_log_ticks(axis)
    sheet.legend(loc="outside lower center", ncols=2)
    return sheet
