"""Choose the default method of a run: once, from the run alone. The result records the choice."""

import math
from typing import Any

from ..flows import is_random
from ..flows.coarse import coarse_obstacle, coarse_parameters
from ..states import AbstractDensity, Tokens
from ..transformer import Transformer

LONG = 500.0  # in units of the contraction time of a cluster: longer runs use method "coarsen" by default


def default_method(model: Transformer, state: Any, t1: float, controlled: bool) -> str:
    """Return the default method of a run, by name.

    "heun" with noise, "lawson" for densities, "coarsen" for long runs of tokens that it supports, otherwise "tsit5".

    Args:
        controlled: True if the user sets how the run is stepped or ended (stop_when, dt, merge_tolerance). Such a run
            uses "coarsen" only if t1 is infinite.
    """
    if is_random(state, model):
        return "heun"
    if isinstance(state, AbstractDensity):
        return "lawson"
    return "coarsen" if coarsens(model, state, t1) and (t1 == math.inf or not controlled) else "tsit5"


def coarsens(model: Transformer, state: Any, t1: float) -> bool:
    """Return True if a run is so long that following clusters is faster than following all tokens."""
    if not isinstance(state, Tokens) or coarse_obstacle(model) is not None:
        return False
    return t1 > LONG * math.exp(coarse_parameters(model)[1])


def check_infinite(model: Transformer, state: Any, t1: float, method: str | None) -> None:
    """Raise ValueError if t1 is infinite for a run that cannot end by itself; the message says why."""
    if t1 != math.inf or method == "coarsen":
        return
    reason = f"it needs Tokens, got {type(state).__name__}"
    if isinstance(state, Tokens):
        reason = coarse_obstacle(model) or f"method must then be 'coarsen' or left out, got {method!r}"
    raise ValueError(f"t1 must be finite, got inf, which needs clusters that merge until one is left: {reason}")
