"""Cells that are run one by one, as trajectories: large runs, layers, runs with noise."""

from typing import Any

import numpy as np

from ..config import build
from .cells import Cell
from .outcome import Outcome, keep, times_of
from .plan import Plan, Recorded


def follow(plan: Plan, cell: Cell, model: Any, state: Any) -> Outcome:
    """Run one cell."""
    from ..driver import layers, simulate

    config, times = cell.config, times_of(plan)
    if config.depth is not None:
        run = layers(model, state, config.depth, config.step)
    else:
        assert config.t1 is not None
        options: dict[str, Any] = {
            "rtol": config.rtol,
            "atol": config.atol,
            "method": config.method,
            "dt": config.dt,
            "merge_tolerance": config.merge_tolerance,
        }
        options = {name: option for name, option in options.items() if option is not None}
        grid = np.unique([*times, config.t1] if np.isfinite(config.t1) else times)
        rule = build.stop_rule(config.stop_when)
        options["save_at"] = grid if len(grid) else None
        run = simulate(model, state, config.t1, stop_when=rule, progress=False, **options)
    return _of_trajectory(plan, model, run)


def noisy(plan: Plan, cells: list[Cell], models: list[Any], states: list[Any]) -> list[Outcome]:
    from ..driver import simulate_many

    config = cells[0].config
    assert config.t1 is not None
    if config.stop_when is not None:
        raise ValueError("run.stop_when is not supported for a model with noise, which runs to t1 in fixed steps dt")
    grid = np.unique([*times_of(plan), config.t1])
    seeds = [cell.seed for cell in cells]
    many = simulate_many(
        models, states, config.t1, seeds=seeds, save_at=grid, method=config.method, dt=config.dt, progress=False
    )
    return [_of_trajectory(plan, model, many[k]) for k, model in enumerate(models)]


def _of_trajectory(plan: Plan, model: Any, run: Any) -> Outcome:
    """Return the recorded quantities of a finished run."""
    events = [(event.kind, float(event.time)) for event in run.events]
    blown = any(kind in ("blow_up", "vanished", "resolution", "fold") for kind, _ in events)
    end, states, reached = float(run.times[-1]), run.states, np.asarray(run.times)

    def value(name: str, quantity: Recorded) -> Any:
        def measure(state: Any) -> float:
            return quantity.measure(state, model)

        if quantity.times is None:
            return float("nan") if blown else measure(states[-1])
        wanted = np.asarray(quantity.times.expanded(), float)
        nearest = np.abs(reached[:, None] - wanted).argmin(axis=0)
        known = np.abs(reached[nearest] - wanted) <= 1e-9 * np.maximum(1, wanted)
        if not (known | (wanted > end)).all():
            raise ValueError(
                f"record.{name}.times: {wanted[~known][0]:g} is not a time of this run (layers are at multiples of step)"
            )
        held = float("nan") if blown else measure(states[-1])
        return np.array([measure(states[j]) if here else held for j, here in zip(nearest, known, strict=True)])

    method, reductions = run.config.get("method", "layers"), ", ".join(run.config.get("reductions", []))
    return Outcome(keep(plan, value, events), end, "", method, reductions)
