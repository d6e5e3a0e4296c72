"""Figure of the phase diagram of noisy tokens."""

import json

import numpy as np
from matplotlib import colormaps, patheffects

from .._kinds import find
from ..attention import AbstractAttention
from ..results.old_names import with_current_names
from .style import GRAY, INK, PALETTE, WIDTH, Sheet, fitting_legend, styled, write_title
from .ticks import plain_log_ticks

COLORS = "Blues"
HIGHEST = 1.25  # top of the color scale: at full order the color is light enough for lines to be seen
STRONG, JUMP, FOLD = INK, PALETTE[1], PALETTE[2]


@styled
def phase_diagram_figure(diagram, runs=None, width: float = WIDTH, height: float = 3.4) -> Sheet:
    """Draw the order parameter of the ordered law over beta and kappa, with the lines of the transition (FORMULAS §10).

    A second panel shows the same lines divided by kappa_c, to enlarge the range where both laws are stable (only for
    unnormalized attention above beta_star). Gray cells were too concentrated to be computed.

    Args:
        diagram: the dataset of `theory.phase_diagram`.
        runs: the dataset of `studies.noisy_order_study`, drawn over it as discs: the color of the left half is the order
            reached from a uniform start, that of the right half the order reached from an ordered start.
        width, height: in inches.

    Example:
        >>> import numpy as np, tokenfield as tkf
        >>> from tokenfield.plotting.phase_diagram import phase_diagram_figure
        >>> diagram = tkf.theory.phase_diagram(np.linspace(0, 6, 9), np.geomspace(0.05, 3, 9), d=2)
        >>> phase_diagram_figure(diagram).savefig("phases.png")
    """
    diagram, runs = with_current_names(diagram), None if runs is None else with_current_names(runs)
    beta, critical = diagram["beta"].values, diagram["critical_kappa"].values
    ratio = diagram["fold"].values / critical
    both = bool((ratio < 1 - 1e-6).any())
    sheet = Sheet(width, height)
    axes = np.atleast_1d(sheet.subplots(1, 1 + both, gridspec_kw={"width_ratios": [1.25, 1][: 1 + both]}))
    _plane(sheet, axes[0], diagram, runs, both)
    if both:
        _range(axes[1], beta, ratio, diagram["equal"].values / critical, diagram.attrs["beta_star"])
    name = find(AbstractAttention, diagram.attrs["attention"]).title
    write_title(axes[0], f"{name}, d = {diagram.attrs['d']}", "a" if both else "")
    return sheet


def _plane(sheet, ax, diagram, runs, both) -> None:
    beta, kappa = diagram["beta"].values, diagram["kappa"].values
    ax.set_facecolor(GRAY)
    mesh = ax.pcolormesh(
        beta,
        kappa,
        diagram["order_parameter"].values.T,
        cmap=COLORS,
        vmin=0,
        vmax=HIGHEST,
        shading="nearest",
        rasterized=True,
    )
    ax.plot(beta, diagram["critical_kappa"], color=STRONG, label=r"$\kappa_c$: uniform law unstable above")
    if both:
        above = beta >= diagram.attrs["beta_star"]
        ax.plot(beta[above], diagram["equal"][above], color=JUMP, ls="--", label="equal free energies")
        ax.plot(beta[above], diagram["fold"][above], color=FOLD, ls=":", lw=2, label="fold: ordered law exists above")
        star = diagram.attrs["beta_star"], diagram.attrs["kappa_star"]
        ax.plot(*star, "o", color="white", mec=STRONG, ms=6, label=rf"$\beta_* = {star[0]:.4g}$", zorder=5)
    logarithmic = kappa[-1] > 8 * kappa[0]
    ax.set(
        xlabel=r"inverse temperature $\beta$",
        ylabel=r"inverse noise $\kappa$",
        yscale="log" if logarithmic else "linear",
        xlim=(beta[0], beta[-1]),
        ylim=(kappa[0], kappa[-1]),
    )
    if logarithmic:
        plain_log_ticks(ax.yaxis)
    for region, word in ((0, "disorder:\nuniform only"), (3, "order only")):
        cells = np.argwhere(diagram["region"].values == region)
        if len(cells):
            i, j = cells.mean(axis=0).round().astype(int)
            text = ax.text(beta[i], kappa[j], word, ha="center", va="center", color=INK)
            text.set_path_effects([patheffects.Stroke(linewidth=2.5, foreground="white"), patheffects.Normal()])
    if runs is not None:
        _discs(ax, runs)
    bar = sheet.colorbar(mesh, ax=ax, boundaries=np.linspace(0, 1, 201), ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label(r"order parameter $m_1$ of the ordered law" if runs is None else r"order parameter $m_1$")
    fitting_legend(sheet, 4 if runs is None else 3)


def _discs(ax, runs) -> None:
    """Draw runs as discs in two halves, with the colors of the heat map."""
    shade = lambda m: colormaps[COLORS](m / HIGHEST)  # noqa: E731
    style = {"marker": "o", "ms": 8, "mec": INK, "mew": 0.7, "ls": "", "zorder": 6, "clip_on": True}
    for k, beta in enumerate(runs["beta"].values):
        for kappa, (left, right) in zip(runs["kappa"].values[k], runs["order_parameter"].values[k], strict=True):
            ax.plot(beta, kappa, fillstyle="left", mfc=shade(left), markerfacecoloralt=shade(right), **style)
    n = json.loads(runs.attrs["config"])["n"]
    label = f"{n} tokens; left half: from disorder, right half: from order"
    ax.plot([], [], fillstyle="left", mfc="white", markerfacecoloralt=shade(0.8), label=label, **style)


def _range(ax, beta, fold, jump, star) -> None:
    ax.fill_between(beta, fold, jump, color=PALETTE[2], alpha=0.25, lw=0)
    ax.fill_between(beta, jump, 1, color=PALETTE[1], alpha=0.25, lw=0)
    ax.axhline(1, color=STRONG)
    above = np.r_[star, beta[beta > star]]
    ax.plot(above, np.r_[1, jump[beta > star]], color=JUMP, ls="--")
    ax.plot(above, np.r_[1, fold[beta > star]], color=FOLD, ls=":", lw=2)
    least = float(fold.min())
    top, bottom = 1 + 0.3 * (1 - least), least - 0.15 * (1 - least)
    left = max(beta[0], min(star, beta[-1]) - 0.2 * (beta[-1] - star))
    ax.set(
        xlim=(left, beta[-1]), ylim=(bottom, top), xlabel=r"inverse temperature $\beta$", ylabel=r"$\kappa/\kappa_c$"
    )
    ax.plot([star], [1], "o", color="white", mec=STRONG, ms=6, zorder=5, clip_on=False)
    write_title(ax, "both laws stable, in units of $\\kappa_c$", "b")
    at = lambda share: left + share * (beta[-1] - left)  # noqa: E731
    line = lambda x, values: float(np.interp(x, beta, values))  # noqa: E731
    centered = {"ha": "center", "va": "center"}
    ax.text(at(0.5), (1 + top) / 2, "order only", **centered)
    ax.text(at(0.3), bottom + 0.15 * (1 - least), "uniform only", **centered)
    ax.text(at(0.78), (1 + line(at(0.78), jump)) / 2 + 0.03 * (1 - least), "both, order\nfavored", **centered)
    ax.annotate(
        "both, uniform\nfavored",
        (at(0.78), (line(at(0.78), fold) + line(at(0.78), jump)) / 2),
        (at(0.28), 1 - 0.6 * (1 - least)),
        arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.7},
        **centered,
    )
