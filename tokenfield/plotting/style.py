"""The style of all figures: sizes, fonts, and colors that color-blind readers can distinguish."""

import io
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .._shown import shown
from ..observables import Clusters
from ..observables.cluster_text import cluster_text

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito's palette, in an order with different neighbors; without yellow, which is hard to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195")
GRAY = "#9a9a9a"
LOOSE = "#707070"
INK = "#222222"
PALE = "#d9d9d9"
DENSITY = "YlGnBu"
WIDTH = 7.1  # inches: two columns of a journal


@lru_cache(maxsize=1)
def settings() -> dict[str, Any]:
    """Return the rcParams of every figure."""
    from matplotlib.font_manager import get_font_names

    here = set(get_font_names())
    family = [name for name in ("Helvetica", "Arial", "Liberation Sans") if name in here][:1]
    return {
        "font.family": [*family, "DejaVu Sans"],
        "mathtext.fontset": "stixsans" if family else "dejavusans",
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.prop_cycle": matplotlib.cycler(color=PALETTE),
        "axes.labelsize": 9,
        "axes.linewidth": 0.7,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "legend.handletextpad": 0.4,
        "legend.columnspacing": 1.2,
        "legend.handlelength": 1.6,
        "lines.linewidth": 1.5,
        "figure.dpi": 120,
        "savefig.dpi": 300,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "tokenfield",
    }


def use_style() -> None:
    """Draw all later figures of this process, pyplot's included, in the style of tokenfield's own figures.

    Example:
        >>> import matplotlib.pyplot as plt, tokenfield as tkf
        >>> tkf.plotting.use_style()
        >>> figure, axes = plt.subplots(layout="constrained")
    """
    open_axes = {"axes.spines.top": False, "axes.spines.right": False}
    matplotlib.rcParams.update({**settings(), **open_axes})


class Sheet(Figure):
    """A figure with its own style: it is saved, and shown in notebooks, in the style in which it was drawn."""

    def __init__(self, width: float = WIDTH, height: float = 3.6, **options: Any):
        super().__init__(figsize=(width, height), layout=options.pop("layout", "constrained"), **options)

    def savefig(self, fname: Any, **options: Any) -> None:
        with matplotlib.rc_context(settings()):
            super().savefig(fname, **options)

    def show(self, warn: bool = True) -> None:
        """Open a window, as `matplotlib.pyplot.show` does; in a notebook, show the figure below the cell."""
        import matplotlib.pyplot as plt

        if self.canvas.manager is None:
            plt.figure(FigureClass=lambda **options: self)  # register this figure with pyplot
        plt.show()

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Return a drawing function that runs under `settings()`."""

    @wraps(draw)
    def wrapped(*args: P.args, **options: P.kwargs) -> T:
        with matplotlib.rc_context(settings()):
            return draw(*args, **options)

    return wrapped


def one_panel(ax: Axes | None, width: float, height: float) -> tuple[Axes, Any]:
    """Return the axes to draw into and what the drawing function returns: the user's `ax` twice, or a new figure's axes and it."""
    if ax is not None:
        return only_axes(ax), ax
    sheet = Sheet(width, height)
    return sheet.add_subplot(), sheet


def only_axes(ax: Any) -> Axes:
    """Return `ax`, or raise ValueError if it is not matplotlib axes."""
    if not isinstance(ax, Axes):
        raise ValueError(f"ax must be matplotlib axes, got {shown(ax)}")
    return ax


def write_title(ax: Axes, title: str, letter: str = "") -> None:
    """Write a title at the left of a panel, with a bold letter before it."""
    text = rf"$\mathbf{{{letter}}}$  " + title.replace("\n", "\n     ") if letter else title
    ax.set_title(text, loc="left")


def colored(groups: Clusters) -> int:
    """Return how many clusters have a color of their own: the largest, with at least two tokens and 4 % of all tokens."""
    worth = np.maximum(2, 0.04 * groups.sizes.sum())
    return int((groups.sizes[: len(PALETTE)] >= worth).sum())


def token_colors(groups: Clusters) -> np.ndarray:
    """Return (n, 4) colors of tokens by their cluster; gray for tokens of clusters without a color."""
    count = colored(groups)
    return to_rgba_array([*PALETTE[:count], *[LOOSE] * (len(groups.sizes) - count)])[groups.labels]


def cluster_names(groups: Clusters, weights: np.ndarray) -> list[tuple[str, str]]:
    """Return `(color, name)` for a legend: the size of each colored cluster (and its mass, if weights differ), and the rest."""
    count = colored(groups)
    equal = np.ptp(weights) <= 1e-12
    mass = lambda k: "" if equal else f" (mass {groups.masses[k]:.2g})"  # noqa: E731
    names = [(PALETTE[k], f"{groups.sizes[k]}{mass(k)}") for k in range(count)]
    rest = int(groups.sizes[count:].sum())
    word = ("other" if names else "token") + "s" * (rest != 1)
    return [*names, (LOOSE, f"{rest} {word}")] if rest else names


def cluster_marks(groups: Clusters, weights: np.ndarray) -> list[Line2D]:
    """Return the entries of a legend of clusters."""
    style = {"marker": "o", "ls": "", "ms": 5, "mew": 0}
    return [Line2D([], [], color=color, label=name, **style) for color, name in cluster_names(groups, weights)]


def cluster_heading(groups: Clusters) -> str:
    """Return the title of a legend of clusters: how many there are, as in the report and on the command line."""
    return cluster_text(groups.sizes.tolist())


def fitting_legend(figure: Figure, columns: int, **options: Any) -> None:
    """Put a legend at the foot of a figure, in as many columns as fit its width, `columns` at most."""
    for count in range(columns, 0, -1):
        legend = figure.legend(loc="outside lower center", ncols=count, **options)
        width = legend.get_window_extent().width
        if width <= figure.bbox.width or count == 1:
            return
        legend.remove()
