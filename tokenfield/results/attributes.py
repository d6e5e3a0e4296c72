"""The attributes of a result: its model and state, how it was computed, and its events."""

import json
from collections.abc import Sequence
from typing import Any

from ..transformer import Transformer
from .describe import describe
from .provenance import provenance


def attributes(
    model: Transformer | Sequence[Transformer] | None,
    config: dict[str, Any],
    events: list[Any],
    log_time_unit: float,
    steps: int,
    rejected: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """Return the attributes of a dataset.

    Args:
        model: the model, or one for each layer or member; None if it is not known.
        config: settings of the run, as plain data.
        events: the events of the run, or a list of events for each member.
        log_time_unit: logarithm of the time unit.
        steps, rejected: numbers of steps taken and rejected.
        more: attributes that only some kinds of runs have, such as a seed.
    """
    described = describe(model) if isinstance(model, Transformer | None) else [describe(each) for each in model]
    return {
        **provenance(),
        "config": json.dumps({"model": described, **config}),
        "events": json.dumps(events),
        "log_time_unit": float(log_time_unit) + 0.0,
        "steps": int(steps),
        "rejected_steps": int(rejected),
        **more,
    }
