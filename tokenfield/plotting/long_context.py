"""The phase diagram of attention at long context."""

from collections.abc import Sequence

import numpy as np
from matplotlib import patheffects

from .._shown import shown
from ..theory.long_context import critical_gamma, layer_contraction, residual_layer_contraction
from .style import WIDTH, Sheet, styled, write_title

COLORS = "cividis"


@styled
def phase_picture(
    n: Sequence[float] = (1e2, 1e4, 1e8),
    gamma_max: float = 5.0,
    residual: float | None = None,
    points: int = 240,
    width: float = WIDTH,
    height: float = 2.6,
) -> Sheet:
    """Draw how much one layer with `beta = gamma log n` raises the cosine rho of n equiangular tokens (FORMULAS §7).

    Each n has a panel. It shows the increase as a fraction of the largest possible one, `(cos - rho)/(1 - rho)`: 1 where the
    layer merges the tokens, 0 where it does not change them. The curve `gamma = 1/(1-rho)` is the boundary for large n.

    Args:
        n: numbers of tokens, one per panel.
        gamma_max: right end of the gamma axis.
        residual: the step h of a residual layer `x + h Att(x)`; None for attention alone.
        points: number of points along each axis of the heat maps.
        width, height: in inches.

    Example:
        >>> from tokenfield.plotting.long_context import phase_picture
        >>> phase_picture(n=(100, 10_000)).savefig("phases.png")
    """
    if not len(n) or not gamma_max > 0:
        raise ValueError(f"n must hold at least one number and gamma_max be > 0, got {shown(n)} and {shown(gamma_max)}")
    sheet = Sheet(width, height)
    axes = np.atleast_1d(sheet.subplots(1, len(n), sharey=True))
    gamma, rho = np.linspace(0, gamma_max, points), np.linspace(0, 0.995, points)
    curve = np.linspace(0, 1 - 1 / max(gamma_max, 1.0), 200)
    for index, (ax, count) in enumerate(zip(axes, n, strict=True)):
        beta = gamma[None, :] * np.log(count)
        after = (
            layer_contraction(rho[:, None], count, beta)
            if residual is None
            else residual_layer_contraction(rho[:, None], count, beta, residual)
        )
        share = (after - rho[:, None]) / (1 - rho[:, None])
        mesh = ax.pcolormesh(gamma, rho, share, cmap=COLORS, vmin=0, vmax=1, shading="gouraud", rasterized=True)
        (line,) = ax.plot(critical_gamma(curve), curve, color="white", lw=1.6)
        line.set_path_effects([patheffects.Stroke(linewidth=3.2, foreground="black"), patheffects.Normal()])
        ax.set(xlabel=r"$\gamma = \beta / \log n$", xlim=(0, gamma_max), ylim=(0, rho[-1]))
        write_title(ax, f"n = {_number(count)}", "abcdefghijkl"[index] if len(n) > 1 else "")
    axes[0].set_ylabel(r"cosine before the layer, $\rho$")
    bar = sheet.colorbar(mesh, ax=list(axes), fraction=0.03, pad=0.01)
    bar.set_label("increase of the cosine /\nlargest possible increase")
    at = 0.775 * curve[-1]
    axes[-1].annotate(
        r"$\gamma = \frac{1}{1-\rho}$",
        (critical_gamma(at), at),
        (0.62 * gamma_max, 0.4 * at),
        color="white",
        fontsize=11,
        arrowprops={"arrowstyle": "-", "color": "white", "lw": 0.8},
    )
    return sheet


def _number(n: float) -> str:
    """Return a number as text: 100, 10^4."""
    power = np.log10(n)
    return f"{n:g}" if n < 1000 or not float(power).is_integer() else rf"$10^{{{power:.0f}}}$"
