"""Estimate the cost of a plan: cells, batches, disk, memory, and time. For the time, short parts of the plan are run."""

import math
import time
from typing import Any, NamedTuple

from .._cost import attention_work
from .._cpus import available_cpus
from ..config import build
from ..config.run import RunConfig
from .batches import Batch, batches
from .built import start
from .cells import Cell, Cells
from .outcome import Outcome
from .plan import Plan, Recorded, Spaced
from .run_batch import check_seeds, run_cells
from .sizes import disk_of, held_by, memory_of, refuse_too_large

FIRST_PART = 0.01  # fraction of the time of a batch that is run first
ENOUGH, LONG = 1.0, 2.0  # seconds: a part long enough for an estimate, and one too long to be run again
COMPILING = 30.0  # seconds: more than it takes to compile a batch
TRIED = 20.0  # seconds of a dry run, after which no further shape is tried
WORK, MIN_TOKENS = 1e9, 256  # maximum multiplications in one step of a tried batch; minimum number of tokens in it


class Estimate(NamedTuple):
    """Counts and sizes; `seconds` is for one core, estimated from short first parts of one batch of each shape.

    `bytes` is the size on disk; `memory` is the maximum memory, of which the runs take `runs` bytes; `failures` are the errors
    of cells that were tried; `at_once` is the number of batches that run at the same time.
    """

    cells: int
    batches: int
    shapes: int
    bytes: int
    memory: int
    seconds: float | None
    runs: int = 0
    failures: tuple[str, ...] = ()
    at_once: int = 1


def estimate(plan: Plan, timed: bool = True, at_once: int | None = None) -> Estimate:
    """Return the sizes of a plan that is not too large; with `timed`, run one batch of each shape for a small part of its time.

    `at_once` is the number of batches that run at the same time: one for each core by default.
    """
    refuse_too_large(plan, None)
    cells = Cells(plan)
    check_seeds(plan, cells)
    all_batches = batches(cells)
    groups: dict[Any, list[Batch]] = {}
    for batch in all_batches:
        groups.setdefault(_shape(cells[batch.cells[0]].config, batch), []).append(batch)
    held = max(held_by(plan, cells[g[0].cells[0]].config, g[0].size, g[0].width) for g in groups.values())
    at_once = min(at_once or available_cpus(), len(all_batches))
    runs = held.bytes * at_once
    seconds, failures = _time(plan, cells, list(groups.values())) if timed else (None, ())
    sizes = disk_of(plan), memory_of(plan) + runs
    return Estimate(len(cells), len(all_batches), len(groups), *sizes, seconds, runs, failures, at_once)


def _shape(config: RunConfig, batch: Batch) -> tuple[Any, ...]:
    """Return the properties that batches of equal cost share."""
    solver = config.t1, config.depth, config.dt, config.rtol, config.atol, config.method, config.stop_when
    return config.tokens.n, config.tokens.d, config.attention.kind, config.norm.kind, *solver, batch.size


def _time(plan: Plan, cells: Cells, groups: list[list[Batch]]) -> tuple[float | None, tuple[str, ...]]:
    """Return the seconds for all batches (None if every cell that was tried fails), and the failures. Batches with the most work
    are tried first; if this takes too long, the others are scaled from the batch with the nearest work."""
    begun, failures, total = time.perf_counter(), [], 0.0
    tried: list[tuple[float, float]] = []  # work and seconds of one batch
    works = [(_work(plan, cells, group[0]), group) for group in groups]
    for work, group in sorted(works, key=lambda each: -each[0] * len(each[1])):
        if tried and time.perf_counter() - begun > TRIED:
            near, known = min(tried, key=lambda each: abs(math.log(each[0] / work)))
            total += known * work / near * len(group)
            continue
        seconds, failed = _seconds(plan, cells, group)
        failures += failed
        if seconds is not None:
            tried.append((work, seconds))
            total += seconds * len(group)
    return total if tried else None, tuple(failures)


def _work(plan: Plan, cells: Cells, batch: Batch) -> float:
    """Return roughly the number of multiplications in one step of a batch; an exponential counts as several."""
    config = cells[batch.cells[0]].config
    n, d = (1, 1) if plan.state == "equiangular" or config.state is not None else config.tokens.size
    return batch.size * (1e4 + attention_work(n, min(n, d) if config.in_span else d))


def _seconds(plan: Plan, cells: Cells, group: list[Batch]) -> tuple[float | None, list[str]]:
    """Return the seconds for one batch of a shape, from runs of the middle batch to two short times: costs that do not grow with
    time are counted once. A quick batch is run to its end. Cells that fail are named and left out."""
    batch = group[len(group) // 2]
    members, scale = _thinned(plan, [cells[k] for k in batch.cells], _work(plan, cells, batch))
    members = _with_step(plan, members)
    config = members[0].config
    failures: list[str] = []
    endless = config.t1 is not None and not math.isfinite(config.t1)
    part, before = 1.0 if endless else FIRST_PART, (0.0, 0.0)
    while True:
        part = part if config.depth is None else math.ceil(part * config.depth - 1e-9) / config.depth
        outcomes, seconds = _taken(*_shortened(plan, members, part), batch)
        if any(outcome.error for outcome in outcomes):
            k = next(k for k, outcome in enumerate(outcomes) if outcome.error)
            if not failures:
                failures = [f"{_name(cells, batch.cells[k])} fails: {outcomes[k].error}"]
            members = [cell for cell, outcome in zip(members, outcomes, strict=True) if not outcome.error]
            if not members:
                return None, failures
            continue
        first, last = before[0] == 0, part == 1
        if last or (first and seconds > LONG) or (not first and seconds > ENOUGH):
            break
        before, part = (part, seconds), min(1.0, part * min(10.0, max(4.0, ENOUGH / seconds)))
    if last:
        return seconds * scale, failures
    slope = max(seconds - before[1], 0.0) / (part - before[0])
    return (seconds + slope * (1 - part)) * scale, failures


def _name(cells: Cells, k: int) -> str:
    """Return a cell as text."""
    point, repeat = divmod(k, cells.plan.repeats)
    where = ", ".join(f"{name} = {value}" for name, value in zip(cells.names, cells.points[point], strict=True))
    return "the first cell" if k == 0 else f"the cell at {where}, repeat = {repeat}"


def _thinned(plan: Plan, members: list[Cell], work: float) -> tuple[list[Cell], float]:
    """Return cells with fewer tokens if a step would take long, and the factor for all tokens: work grows like n²."""
    config = members[0].config
    tokens = config.tokens
    reduced = plan.state == "equiangular" or config.state is not None
    if work <= WORK or reduced or not tokens.random or "n" not in tokens.options or tokens.n <= MIN_TOKENS:
        return members, 1.0
    n = max(MIN_TOKENS, int(tokens.n * math.sqrt(WORK / work)))
    change = lambda config: {"tokens": config.tokens.model_copy(update={"n": n})}  # noqa: E731
    return _changed(members, change), (tokens.n / n) ** 2


def _with_step(plan: Plan, members: list[Cell]) -> list[Cell]:
    """Give cells with noise the step size of the full run."""
    config = members[0].config
    if config.noise is None or config.dt is not None or config.t1 is None:
        return members
    from ..driver.choice import reduction
    from ..driver.continuous import NOISE_TOLERANCE
    from ..flows import segments
    from ..solver.langevin import default_dt

    try:
        small, model, *_ = reduction(start(plan, members[0]), build.model(config), NOISE_TOLERANCE)
        flow: Any = segments(small, model)[0].flow
        dt = float(default_dt(flow, small, config.t1))
    except Exception:  # running the cell will report the error
        return members
    return _changed(members, lambda config: {"dt": dt})


def _taken(plan: Plan, members: list[Cell], batch: Batch) -> tuple[list[Outcome], float]:
    """Return the outcomes and the seconds of a batch. The first run compiles, and is counted only if it is long. Of two more
    runs the faster one is counted, because the machine may have been busy."""
    durations: list[float] = []
    while True:
        begun = time.perf_counter()
        outcomes = run_cells(plan, members, batch.size, batch.width)
        durations.append(time.perf_counter() - begun)
        enough = durations[-1] > (COMPILING if len(durations) == 1 else ENOUGH) or len(durations) == 3
        if enough or any(outcome.error for outcome in outcomes):
            return outcomes, max(min(durations), 1e-9)


def _shortened(plan: Plan, members: list[Cell], part: float) -> tuple[Plan, list[Cell]]:
    """Return the plan and its cells, shortened to a part of their time or depth. As many states as before are measured in this
    time; for runs in steps, only the states within it."""
    if part >= 1:
        return plan, members
    config = members[0].config
    if config.depth is not None:
        depth = round(part * config.depth)
        shorter = _changed(members, lambda config: {"depth": depth})
        return _measured_at(plan, lambda t: t if t <= depth * config.step * (1 + 1e-9) else None), shorter
    assert config.t1 is not None
    end = part * config.t1
    shorter = _changed(members, lambda config: {"t1": end})
    if config.dt is not None:
        return _measured_at(plan, lambda t: t if t <= end else None), shorter
    return _measured_at(plan, lambda t: t * part), shorter


def _measured_at(plan: Plan, change: Any) -> Plan:
    """Return a plan with other times; those that become None are left out."""

    def changed(quantity: Recorded) -> Recorded:
        times = [] if quantity.times is None else [change(t) for t in quantity.times.expanded()]
        left = [t for t in times if t is not None]
        return quantity.model_copy(update={"times": Spaced.model_construct(values=left) if left else None})

    return plan.model_copy(update={"record": {name: changed(quantity) for name, quantity in plan.record.items()}})


def _changed(members: list[Cell], change: Any) -> list[Cell]:
    """Return cells with other configs. Repeats share theirs, as before."""
    made: dict[int, RunConfig] = {}
    for cell in members:
        if id(cell.config) not in made:
            made[id(cell.config)] = cell.config.model_copy(update=change(cell.config))
    return [cell._replace(config=made[id(cell.config)]) for cell in members]
