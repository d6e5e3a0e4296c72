"""Checks of a plan beyond the types of its keys. Every message begins with the key."""

import difflib
import itertools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._shown import shown
from .parameters import GAMMA, check_name, known, resolve

if TYPE_CHECKING:
    from ..config.run import RunConfig
    from .plan import Plan

LARGEST = 2**63 - 1
MOST_CELLS = 10_000_000
TAKEN = {"repeat", "status", "error", "id", "seed_used", "end_time", "method_used", "reductions_used"}
ROUNDING = 1e-9


def check(plan: "Plan") -> None:
    """Raise a ValueError for the first invalid part of a plan."""
    if Path(plan.name).name != plan.name or plan.name in ("", ".", ".."):
        raise ValueError(f"name: must be a plain name, got {shown(plan.name)}")
    for key, value, least in (("repeats", plan.repeats, 1), ("batch", plan.batch, 1), ("seed", plan.seed, 0)):
        if value is not None and value < least:
            raise ValueError(f"{key}: must be at least {least}, got {value}")
    _axes(plan)
    _run(plan.run)
    first = plan.config({name: axis.expanded()[0] for name, axis in plan.axes.items()})
    if not plan.record:
        raise ValueError("record: must name at least one quantity")
    events, end = _events(plan), _end(plan, first)
    for name, quantity in plan.record.items():
        if not name.isidentifier() or name in TAKEN or name in plan.axes or name.startswith("time_"):
            raise ValueError(f"record.{name}: must be a plain name that is not taken by the dataset")
        if quantity.times is not None:
            _times(name, quantity.times.expanded(), end)
        if quantity.event is not None and quantity.event.replace("-", "_") not in events:
            near = difflib.get_close_matches(quantity.event, events, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"with this run.stop_when there are: {', '.join(events)}"
            raise ValueError(f"record.{name}.event: no run ends with {shown(quantity.event)}: {hint}")


def numbers(config: "RunConfig") -> str | None:
    """Return what is wrong with the numbers of a run, or None."""
    from ..solver.langevin import SCHEMES
    from ..solver.methods import RUNGE_KUTTA

    for key, value in (("tokens.n", config.tokens.n), ("tokens.d", config.tokens.d), ("depth", config.depth)):
        if value is not None and not 1 <= value <= LARGEST:
            bound = ">= 1" if value < 1 else f"of at most {LARGEST}"
            return f"{key}: must be a whole number {bound}, got {shown(value)}"
    for key, number, least in (
        ("t1", config.t1, "> 0"),
        ("rtol", config.rtol, ">= 0"),
        ("atol", config.atol, "> 0"),
        ("step", config.step, "> 0"),
        ("dt", config.dt, "> 0"),
    ):
        fits = number is None or number > 0 or (number == 0 and least == ">= 0")
        if not fits or (number == math.inf and key != "t1"):
            return f"{key}: must be finite and {least}, got {number}"
    methods = (
        list(SCHEMES) if config.noise is not None else [*(name for name in RUNGE_KUTTA if name != "lawson"), "coarsen"]
    )
    if config.method is not None and config.method not in methods:
        return f"method: must be one of {', '.join(methods)}, got {shown(config.method)}"
    return None


def _axes(plan: "Plan") -> None:
    if not plan.axes:
        raise ValueError("axes: must name at least one parameter")
    if plan.count > MOST_CELLS:
        raise ValueError(f"axes: {plan.count} cells are more than a sweep may have ({MOST_CELLS})")
    names = known(plan.run, plan.values())
    for name in plan.axes:
        check_name(name, names)
    keys = {name: "attention.beta" if name == GAMMA else resolve(name) for name in plan.axes}
    if len(set(keys.values())) != len(keys):
        raise ValueError(f"axes: two of {', '.join(plan.axes)} set the same parameter")
    for value in plan.axes[GAMMA].expanded() if GAMMA in plan.axes else []:
        if isinstance(value, (str, bool)) or not abs(value) < 1e300:
            raise ValueError(f"axes.{GAMMA}: must be finite numbers, got {shown(value)}")
    for name, key in keys.items():
        if key in ("tokens.seed", "noise.seed", "state.seed"):
            raise ValueError(f"axes.{name}: seeds are made from the plan's seed: use repeats")


def _run(run: dict[str, Any]) -> None:
    """Raise ValueError for keys of a run that a sweep sets elsewhere."""
    for section in ("tokens", "noise", "state"):
        if isinstance(run.get(section), dict) and "seed" in run[section]:
            raise ValueError(f"run.{section}.seed: seeds are made from the plan's seed: set seed instead")
    if "observe" in run:
        raise ValueError("run.observe: a sweep saves the quantities in record: use record")
    if "save_at" in run:
        raise ValueError("run.save_at: a sweep saves the quantities in record: use record.NAME.times")


def _events(plan: "Plan") -> list[str]:
    """Return the kinds of events that runs of a plan can have."""
    from ..config import build

    axis = plan.axes.get("stop_when")
    texts = [plan.run.get("stop_when")] if axis is None else axis.expanded()
    rules = [build.stop_rule(None if text is None else str(text)) for text in texts]
    return [
        *(rule.kind for rule in rules if rule is not None),
        "blow_up",
        "vanished",
        "resolution",
        "fold",
        "merge",
        "stationary",
    ]


def _end(plan: "Plan", first: Any) -> float:
    """Return the end of the shortest run."""
    varied = {key: plan.axes[key].expanded() for key in ("t1", "depth", "step") if key in plan.axes}
    if first.t1 is not None:
        return min(map(float, varied.get("t1", [first.t1])))
    return min(map(float, varied.get("depth", [first.depth]))) * min(map(float, varied.get("step", [first.step])))


def _times(name: str, times: list[Any], end: float) -> None:
    if any(isinstance(time, (str, bool)) or not abs(time) < math.inf or abs(time) > 1e300 for time in times):
        raise ValueError(f"record.{name}.times: must be finite numbers, got {shown(times)}")
    if min(times) < 0 or max(times) > end * (1 + ROUNDING):
        raise ValueError(f"record.{name}.times: must lie within [0, {end:g}], got {min(times):g} to {max(times):g}")
    if any(a >= b for a, b in itertools.pairwise(times)):
        raise ValueError(f"record.{name}.times: must increase")
