"""How often limits of Gaussian data have each rank."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ..studies.gaussian_ranks import VALUES, LimitRanks
from .style import GRAY, INK, PALETTE, WIDTH, Sheet, styled, write_title

KINDS = (
    ("settled", PALETTE[0], r"limit $\Sigma^*$"),
    ("unsettled", GRAY, r"$\Sigma$ still moving"),
    ("diverged", PALETTE[1], r"diverged: $\Sigma / \mathrm{tr}\,\Sigma$"),
)


@styled
def rank_histogram(found: Sequence[Sequence[LimitRanks]], values: Sequence[str] = VALUES) -> Sheet:
    """Draw how often limits of Gaussian data have rank 0, 1, ..., d, for random symmetric A.

    There is a row for each kind of V and a column for each dimension. Every draw is in one of the bars. The dashed line is after
    `floor(d/2)`, the largest rank of a limit for invertible A and V = I (FORMULAS §5).

    Args:
        found: results of `tokenfield.studies.limit_ranks`: for each of `values`, a list with one result per dimension.
        values: the kind of V of each row, "identity" or "random".

    Example:
        >>> import tokenfield as tkf
        >>> found = [[tkf.studies.limit_ranks(2, draws=20, values=each, tol=0.1)] for each in ("identity", "random")]
        >>> tkf.plotting.rank_histogram(found).savefig("ranks.pdf")
    """
    sheet = Sheet(WIDTH, 0.7 + 1.75 * len(found))
    panels = np.atleast_2d(sheet.subplots(len(found), len(found[0]), sharey="row", squeeze=False))
    for row, (own, each) in enumerate(zip(found, values, strict=True)):
        for column, one in enumerate(own):
            _draw_counts(panels[row, column], one)
            word = "$V = I$" if each == "identity" else "random $V$"
            write_title(panels[row, column], f"{word}, $d = {one.d}$", "abcdefghijkl"[row * len(own) + column])
        panels[row, 0].set_ylabel(f"count (of {len(own[0].kind)} draws)")
    for ax in panels[-1]:
        ax.set_xlabel("rank")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    sheet.legend(handles, labels, loc="outside lower center", ncols=len(handles))
    return sheet


def _draw_counts(ax: Axes, one: LimitRanks) -> None:
    rank = np.arange(one.d + 1)
    for index, (kind, color, label) in enumerate(KINDS):
        ax.bar(rank + 0.28 * (index - 1), one.counts(kind), 0.26, color=color, label=label)
    ax.axvline(one.d // 2 + 0.5, color=INK, lw=0.9, ls="--", label=r"$\lfloor d/2 \rfloor$")
    ax.set_xticks(rank)
    ax.set_xlim(-0.6, one.d + 0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
