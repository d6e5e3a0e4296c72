"""Replace each run by an equivalent, cheaper one. `Reduction.lift` maps its states back."""

from collections.abc import Sequence
from typing import Any

from ..flows import Reduction, reduced_all
from ..stop_rule import AbstractStopRule
from ..transformer import Transformer
from .members import by_model


def reductions(
    states: Sequence[Any],
    models: Sequence[Transformer],
    tolerance: float,
    rule: AbstractStopRule | None = None,
    rotation_invariant: bool = True,
) -> list[Reduction]:
    """Return the reduction of every member, which depends on that member alone.

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
