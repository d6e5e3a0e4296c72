"""What theory predicts, without simulating. Every function returns plain numbers or arrays and cites its formula."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .gaussian import gaussian_blowup_time as gaussian_blowup_time

# Imported when first used.
_HOMES = {
    "gaussian": "gaussian_closed_form gaussian_mean gaussian_blowup_time gaussian_limit gaussian_rank_bound "
    "gaussian_stationarity",
    "equiangular": "initial_velocity time_to_cosine terminal_law fit_terminal_law TerminalLaw",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tokenfield.theory' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
