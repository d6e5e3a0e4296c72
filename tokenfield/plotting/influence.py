"""Which positions the last token depends on, at several depths."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..theory.response_fit import fit_influence
from .style import GRAY, INK, PALETTE, WIDTH, Sheet, styled, write_title


@styled
def influence_figure(
    share: ArrayLike, depths: Sequence[int], fitted: bool = True, width: float = WIDTH, height: float = 2.7
) -> Sheet:
    """Draw the share of each position in the last token, one panel per depth (FORMULAS §13).

    Dots are the measured shares times n, so that 1 is an equal share; the ring is the last token's own share. Lines are the
    theory of causal layers that attend by position alone: with a fitted ALiBi slope (solid), and without it (dashed).

    Args:
        share: (m, n) positive numbers, e.g. `PositionInfluence.share`.
        depths: (m,) numbers of layers.
        fitted: draw the fits.
        width, height: in inches.

    Example:
        >>> import tokenfield as tkf
        >>> rows = [tkf.theory.token_influence(64, depth, 0.1, slope=2.0) for depth in (1, 6)]
        >>> tkf.plotting.influence_figure(rows, (1, 6)).savefig("influence.png")
    """
    rows = np.atleast_2d(np.asarray(share, float))
    if len(rows) != len(depths):
        raise ValueError(f"depths must have a number of layers for each row of share, {len(rows)}, got {len(depths)}")
    n = rows.shape[1]
    at = np.arange(1, n + 1) / n
    sheet = Sheet(width, height)
    axes = np.atleast_1d(sheet.subplots(1, len(rows), sharey=True))
    for index, (ax, row, depth) in enumerate(zip(axes, rows, depths, strict=True)):
        relative = n * row / row.sum()
        ax.axhline(1, color=GRAY, lw=0.6)
        ax.plot(at[:-1], relative[:-1], ".", color=PALETTE[0], ms=4, mew=0, alpha=0.7, label="measured")
        ax.plot(at[-1:], relative[-1:], "o", color=PALETTE[0], ms=5, mfc="none", label="the last token itself")
        title = "1 layer" if depth == 1 else f"{depth} layers"
        if fitted:
            both, alone = (fit_influence(row, int(depth), slope=slope) for slope in (None, 0.0))
            for fit, label, style in (
                (alone, r"theory, $\lambda = 0$", {"color": INK, "lw": 0.9, "ls": (0, (4, 2))}),
                (both, r"theory, $\lambda$ fitted", {"color": PALETTE[1]}),
            ):
                ax.plot(at[:-1], n * fit.influence[:-1], label=label, **style)
                ax.plot(at[-1:], n * fit.influence[-1:], "_", color=style["color"], ms=9, mew=1.2)
            title += "\n" + rf"$\alpha = {both.alpha:.2g}$, $\lambda = {both.slope:.2g}$"
        ax.set(yscale="log", xlabel="position", xlim=(-0.03, 1.06), xticks=(0, 0.5, 1))
        ax.xaxis.set_major_formatter("{x:g}")
        write_title(ax, title, "abcdefghijkl"[index] if 1 < len(rows) <= 12 else "")
    axes[0].set_ylabel("influence / equal share")
    axes[0].yaxis.set_major_formatter("{x:g}")
    sheet.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return sheet
