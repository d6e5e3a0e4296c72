"""What is chosen for a run, once, from the run alone: its method, and an equivalent, cheaper problem. Results record both."""

import math
from collections.abc import Sequence
from typing import Any

from ..flows import Reduction, reduced_all
from ..flows.coarse import coarse_obstacle, coarse_parameters
from ..solver.methods import checked_method
from ..states import Tokens
from ..stop_rule import AbstractStopRule
from ..transformer import Transformer
from .members import by_model

LONG = 500.0  # in units of the contraction time of a cluster: longer runs use method "coarsen" by default


def chosen_method(name: str | None, state: Any, model: Transformer, t1: float, controlled: bool) -> str:
    """Return the name of the method of a run; raise ValueError if the one that is asked for does not fit the run.

    The default is "coarsen" for long runs of tokens that it supports, else `plain_method`.

    Args:
        name: the method that is asked for; None for the default.
        controlled: True if the user sets how the run is stepped or ended (stop_when, dt, merge_tolerance). Such a run
            uses "coarsen" only if t1 is infinite.
    """
    coarse = name is None and isinstance(state, Tokens) and coarsens(model, t1) and (t1 == math.inf or not controlled)
    return "coarsen" if coarse else checked_method(name, state, model)


def coarsens(model: Transformer, t1: float) -> bool:
    """Return True if a run of tokens is so long that following clusters is faster than following all tokens."""
    if coarse_obstacle(model) is not None:
        return False
    return t1 > 0 and math.log(t1) > math.log(LONG) + coarse_parameters(model)[1]


def check_infinite(model: Transformer, state: Any, t1: float, method: str | None) -> None:
    """Raise ValueError if t1 is infinite for a run that cannot end by itself; the message says why."""
    if t1 != math.inf or method == "coarsen":
        return
    reason = f"it needs Tokens, got {type(state).__name__}"
    if isinstance(state, Tokens):
        reason = coarse_obstacle(model) or f"method must then be 'coarsen' or left out, got {method!r}"
    raise ValueError(
        f"t1 must be finite, got inf, which works only for models that method 'coarsen' supports: {reason}"
    )


def reductions(
    states: Sequence[Any],
    models: Sequence[Transformer],
    tolerance: float,
    rule: AbstractStopRule | None = None,
    rotation_invariant: bool = True,
) -> list[Reduction]:
    """Return the reduction of every member, which depends on that member alone. Its `lift` maps states back.

    Args:
        tolerance: allowed error of the velocities; with 0 they differ by rounding only.
        rule: the stop rule. If it reads coordinates, it needs those of the state itself, so "span" is not used.
        rotation_invariant: False if something else reads the coordinates of the state.
    """
    found: list[Any] = [None] * len(states)
    for members in by_model(models).values():
        model = models[members[0]]
        shared = reduced_all(states[members[0]], [states[k] for k in members], model, tolerance)
        for k, each in zip(members, shared, strict=True):
            invariant = rotation_invariant and (rule is None or rule.rotation_invariant)
            allowed = invariant or "span" not in each.names
            found[k] = each if allowed else Reduction(states[k], model)
    return found


def reduction(state: Any, model: Transformer, tolerance: float, rule: AbstractStopRule | None = None) -> Reduction:
    """Return the reduction of one run."""
    return reductions([state], [model], tolerance, rule)[0]
