"""One look for all figures: sizes, fonts, colours that the colour-blind can tell apart."""

import io
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from ..observables import Clusters

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito's palette, in an order that keeps neighbours apart; yellow is left out, as it fades on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195")
GREY = "#9a9a9a"
INK = "#222222"
PALE = "#d9d9d9"
DENSITY = "YlGnBu"
WIDTH = 7.1  # inches: two columns of a journal


@lru_cache(maxsize=1)
def settings() -> dict[str, Any]:
    """The rcParams of every figure."""
    from matplotlib.font_manager import get_font_names

    here = set(get_font_names())
    family = [name for name in ("Helvetica", "Arial", "Liberation Sans") if name in here][:1]
    return {
        "font.family": [*family, "DejaVu Sans"],
        "mathtext.fontset": "stixsans" if family else "dejavusans",
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
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


class Sheet(Figure):
    """A figure that carries its style along: it is saved, and shown in notebooks, as it was drawn."""

    def __init__(self, width: float = WIDTH, height: float = 3.6, **options: Any):
        super().__init__(figsize=(width, height), layout=options.pop("layout", "constrained"), **options)

    def savefig(self, fname: Any, **options: Any) -> None:
        with matplotlib.rc_context(settings()):
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Run a drawing function under `settings()`."""

    @wraps(draw)
    def wrapped(*args: P.args, **options: P.kwargs) -> T:
        with matplotlib.rc_context(settings()):
            return draw(*args, **options)

    return wrapped


def token_colours(groups: Clusters) -> np.ndarray:
    """(n, 4) colours: the largest clusters of two tokens and more have one of their own, the others are grey."""
    own = [to_rgba(PALETTE[k]) if k < len(PALETTE) and size > 1 else to_rgba(GREY) for k, size in enumerate(groups.sizes)]
    return np.asarray(own)[groups.labels]


def cluster_names(groups: Clusters, weights: np.ndarray) -> list[tuple[str, str]]:
    """`(colour, words)` for a legend: the size of each coloured cluster (its mass too, if tokens differ), and the rest."""
    coloured = int((groups.sizes[: len(PALETTE)] > 1).sum())
    equal = np.ptp(weights) <= 1e-12
    name = lambda k: f"{groups.sizes[k]}" + ("" if equal else f" (mass {groups.masses[k]:.2g})")  # noqa: E731
    names = [(PALETTE[k], name(k)) for k in range(coloured)]
    rest = groups.count - coloured
    if rest:
        names.append((GREY, _rest(groups.sizes[coloured:], bool(coloured))))
    return names


def _rest(sizes: np.ndarray, others: bool) -> str:
    if (sizes == 1).all():
        return f"{len(sizes)} single" if others else "all single"
    return f"{sizes.sum()} in {len(sizes)} smaller"


def file_safe_png(figure: Figure, dpi: int = 160) -> bytes:
    """The figure as PNG bytes, the same bytes each time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
