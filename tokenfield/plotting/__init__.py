"""Figures and animations of runs, with matplotlib. Nothing here touches pyplot's global state."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .animation import animate as animate
    from .circle import space_time as space_time
    from .cones import cone_coordinates as cone_coordinates
    from .cones import cone_figure as cone_figure
    from .cones import cone_plot as cone_plot
    from .cosines import cosine_panel as cosine_panel
    from .energies import energy_panel as energy_panel
    from .long_context import phase_picture as phase_picture
    from .norms import norms_figure as norms_figure
    from .ranks import limit_ranks as limit_ranks
    from .ranks import rank_histogram as rank_histogram
    from .sheet import overview as overview
    from .staircases import merge_tree as merge_tree
    from .staircases import staircase as staircase
    from .style import Sheet as Sheet
    from .token_paths import tokens_panel as tokens_panel

# Imported when first used: a summary of a run reads `frames` and `record` only, and needs no matplotlib.
_HOME = {
    "overview": "sheet",
    "animate": "animation",
    "space_time": "circle",
    "tokens_panel": "token_paths",
    "energy_panel": "energies",
    "cosine_panel": "cosines",
    "cone_coordinates": "cones",
    "cone_plot": "cones",
    "cone_figure": "cones",
    "limit_ranks": "ranks",
    "rank_histogram": "ranks",
    "phase_picture": "long_context",
    "norms_figure": "norms",
    "staircase": "staircases",
    "merge_tree": "staircases",
    "Sheet": "style",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tokenfield.plotting' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
