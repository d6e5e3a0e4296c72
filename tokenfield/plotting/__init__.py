"""Figures and animations of runs, with matplotlib. Nothing here touches pyplot's global state."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .animation import animate as animate
    from .circle import space_time as space_time
    from .comparison import compare as compare
    from .cones import cone_coordinates as cone_coordinates
    from .cones import cone_figure as cone_figure
    from .cones import cone_plot as cone_plot
    from .cosines import cosine_panel as cosine_panel
    from .energies import energy_panel as energy_panel
    from .field import field_figure as field_figure
    from .growth import growth_figure as growth_figure
    from .influence import influence_figure as influence_figure
    from .long_context import phase_picture as phase_picture
    from .norms import norms_figure as norms_figure
    from .overlaid import cosine_histograms as cosine_histograms
    from .phase_diagram import phase_diagram_figure as phase_diagram_figure
    from .probe import probe_cosines as probe_cosines
    from .probe import probe_theory as probe_theory
    from .probe_attention import probe_heads as probe_heads
    from .probe_growth import probe_smoothness as probe_smoothness
    from .probe_states import probe_layers as probe_layers
    from .ranks import rank_histogram as rank_histogram
    from .sheet import draw_panel as draw_panel
    from .sheet import overview as overview
    from .staircases import merge_tree as merge_tree
    from .staircases import staircase as staircase
    from .style import Sheet as Sheet
    from .style import use_style as use_style
    from .token_paths import tokens_panel as tokens_panel

# A summary of a run uses `frames` only, which does not need matplotlib.
__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "sheet": "draw_panel overview",
        "comparison": "compare",
        "animation": "animate",
        "circle": "space_time",
        "token_paths": "tokens_panel",
        "energies": "energy_panel",
        "field": "field_figure",
        "cosines": "cosine_panel",
        "overlaid": "cosine_histograms",
        "cones": "cone_coordinates cone_plot cone_figure",
        "ranks": "rank_histogram",
        "growth": "growth_figure",
        "influence": "influence_figure",
        "long_context": "phase_picture",
        "norms": "norms_figure",
        "phase_diagram": "phase_diagram_figure",
        "probe": "probe_cosines probe_theory",
        "probe_attention": "probe_heads",
        "probe_states": "probe_layers",
        "probe_growth": "probe_smoothness",
        "staircases": "staircase merge_tree",
        "style": "Sheet use_style",
    },
)
