"""One figure for a run."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from .._check import one_of
from ..results import Trajectory
from .cosines import cosine_panel
from .densities import density_sheet
from .energies import energy_panel
from .equiangular import equiangular_sheet
from .frames import MOST_FRAMES
from .gaussian import gaussian_sheet
from .style import WIDTH, Sheet, only_axes, styled
from .token_paths import tokens_panel

SHEETS = {
    "Gaussian": gaussian_sheet,
    "Equiangular": equiangular_sheet,
    "CircleDensity": density_sheet,
    "SphereDensity": density_sheet,
    "ZonalDensity": density_sheet,
}

PANELS: dict[str, Callable[..., Axes]] = {"tokens": tokens_panel, "energy": energy_panel, "cosines": cosine_panel}


@styled
def draw_panel(traj: Trajectory, ax: Axes, panel: str = "tokens", **options: Any) -> Axes:
    """Draw one panel of `overview` ("tokens", "energy" or "cosines") into your own axes, and return them.

    Args:
        traj: a run of tokens.
        ax: matplotlib axes.
        panel: which panel.
        options: those of `tokens_panel`, `energy_panel` or `cosine_panel`.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> traj.plot(ax=tkf.plotting.Sheet().add_subplot(), panel="energy")
    """
    only_axes(ax)
    kind = traj.dataset.attrs["state"]
    if kind != "Tokens":
        raise ValueError(
            f"ax is supported for runs of Tokens only, got a run of {kind}: use traj.observe(name).plot(ax=ax)"
        )
    return PANELS[one_of("panel", panel, tuple(PANELS))](traj, ax, **options)


@styled
def overview(
    traj: Trajectory,
    frames: int = MOST_FRAMES,
    tol: float = 1e-3,
    title: str | None = None,
    width: float = WIDTH,
    height: float = 4.0,
) -> Sheet:
    """Draw a run in one figure: for tokens, their positions, their energy and the cosines between them, over time.

    For a `Gaussian`, the figure shows its ellipses (or its mean) and the eigenvalues of its covariance; for `Equiangular`
    tokens, the cosine and its approach to 1; for a density, the density over time and its spectrum.

    Args:
        traj: a run.
        frames: maximum number of saved states to draw.
        tol: tolerance of the final clusters, which give the colors; see `tokenfield.clusters`.
        title: a heading, none by default.
        width, height: in inches; the default fits two columns of a journal.

    Returns:
        A matplotlib figure that notebooks show; `savefig` writes it with its own style.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=9.0), tkf.PostLN())
        >>> traj = tkf.simulate(model, tkf.uniform_sphere(16, 3, seed=0), t1=2.0, save_at=5)
        >>> tkf.plotting.overview(traj).savefig("run.pdf")
    """
    draw = SHEETS.get(traj.dataset.attrs["state"])
    if draw is not None:
        return draw(traj, title, width, height)
    sheet = Sheet(width, height)
    left, right = sheet.subfigures(1, 2, width_ratios=(1, 1.12))
    grid = right.add_gridspec(2, 2, width_ratios=(1, 0.04))
    tokens = left.add_subplot()
    energies, cosines = right.add_subplot(grid[0, 0]), right.add_subplot(grid[1, 0])
    tokens_panel(traj, tokens, frames, tol, legend="figure", letter="a")
    tokens.set_anchor("N")
    energy_panel(traj, energies, letter="b").set_xlabel("")
    cosine_panel(traj, cosines, frames, colorbar_axes=right.add_subplot(grid[1, 1]), letter="c")
    if title:
        sheet.suptitle(title, x=0.01, ha="left", fontsize=10)
    return sheet
