"""Figures and animations of runs, with matplotlib. Nothing here touches pyplot's global state."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .animation import animate as animate
    from .circle import space_time as space_time
    from .cosines import cosine_panel as cosine_panel
    from .energies import energy_panel as energy_panel
    from .sheet import overview as overview
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
    "Sheet": "style",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tokenfield.plotting' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
