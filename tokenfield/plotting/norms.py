"""Figure that compares normalization rules."""

import json
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..results.old_names import with_current_names
from .style import INK, PALETTE, WIDTH, Sheet, styled, write_title

if TYPE_CHECKING:
    import xarray


@styled
def norms_figure(study: "xarray.Dataset", width: float = WIDTH, height: float | None = None) -> Sheet:
    """Draw the mean cosine over layers with random weights, one panel per rule (FORMULAS §7; the survey's Figure 4).

    The line is the mean over seeds; the band contains 90 % of them. Dashed: the random-weight recursion. Dotted: equiangular
    tokens with Q = K = V = I.

    Args:
        study: the result of `tokenfield.studies.normalization_study`.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting.norms import norms_figure
        >>> from tokenfield.studies import normalization_study
        >>> norms_figure(normalization_study(d=32, n=8, depth=4, seeds=2)).savefig("norms.png")
    """
    study = with_current_names(study)
    rules = [str(rule) for rule in study["rule"].values]
    columns = min(3, len(rules))
    rows = -(-len(rules) // columns)
    sheet = Sheet(width, 0.75 + 1.65 * rows if height is None else height)
    axes = np.atleast_1d(sheet.subplots(rows, columns, sharex=True, sharey=True)).ravel()
    layer = study["layer"].values
    for index, (ax, rule) in enumerate(zip(axes, rules, strict=False)):
        color, one = PALETTE[index % len(PALETTE)], study.sel(rule=rule)
        low, high = np.quantile(one["mean_cosine"], [0.05, 0.95], axis=0)
        ax.fill_between(layer, low, high, color=color, alpha=0.3, lw=0)
        ax.plot(layer, one["mean_cosine"].mean("seed"), color=color, lw=1.3)
        ax.plot(layer, one["recursion"], color=INK, lw=0.9, ls=(0, (4, 2)))
        ax.plot(layer, one["identity"], color=INK, lw=1.1, ls=(0, (1, 1.5)))
        ax.set(xlim=(layer[0], layer[-1]), ylim=(-0.03, 1.03))
        write_title(ax, str(one["title"].values), chr(ord("a") + index) if len(rules) > 1 else "")
    for ax in axes[len(rules) :]:
        ax.set_axis_off()
    for ax in axes[max(0, len(rules) - columns) : len(rules)]:
        ax.set_xlabel("layer")
        ax.tick_params(labelbottom=True)
    for ax in axes[::columns]:
        ax.set_ylabel("mean cosine")
    marks = [
        Line2D([], [], color=PALETTE[0], label="mean over seeds"),
        Patch(color=PALETTE[0], alpha=0.3, lw=0, label="90 % of seeds"),
        Line2D([], [], color=INK, lw=0.9, ls=(0, (4, 2)), label="recursion"),
        Line2D([], [], color=INK, lw=1.1, ls=(0, (1, 1.5)), label="Q = K = V = I, equal angles"),
    ]
    sheet.legend(handles=marks, loc="outside lower center", ncols=4)
    sheet.suptitle(_heading(study), x=0.01, ha="left", fontsize=9)
    return sheet


def _heading(study: "xarray.Dataset") -> str:
    config = json.loads(study.attrs["config"])
    return (
        f"Random weights: d = {config['d']}, n = {config['n']}, "
        rf"$\beta$ = {config['beta']:.4g}, {study.sizes['seed']} seeds"
    )
