"""`tokenfield sweep`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .choices import Format
from .command_line import command_line
from .errors import Interrupted
from .folders import say_open

ABOUT = (
    "`run PLAN.toml` or `run` and the name of a ready plan (`run` may be left out); `plans`, `status DIR`, `figures DIR`, "
    "`export DIR FILE.nc`."
)
NEEDS = {"run": "PLAN", "status": "DIR", "figures": "DIR", "export": "DIR FILE.nc"}


def sweep(
    what: Annotated[
        list[str], typer.Argument(help=ABOUT, metavar="run PLAN", autocompletion=lambda: [*NEEDS, "plans"])
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, the dataset and figures [the plan's name].", show_default=False),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Override a key of the plan, e.g. run.rtol=1e-8 or axes.beta=[1,2].", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cells, batches, estimated time and memory; run nothing.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the sweep in the folder; failed cells are run again.")
    ] = False,
    no_retry: Annotated[bool, typer.Option("--no-retry", help="With --resume, leave failed cells.")] = False,
    format: Format = "png",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a sweep in the folder.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Local processes [one a core; 0: this process].", show_default=False, min=0),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://127.0.0.1:8786.", show_default=False)
    ] = None,
    dask_local: Annotated[
        int | None, typer.Option(help="Run on a local Dask cluster of so many workers.", show_default=False, min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and failures as JSON.")] = False,
) -> None:
    """Run a model over a grid of parameters and seeds: resumable, in processes or on a Dask cluster.

    A killed sweep loses at most the cells in flight; --resume finishes it to the same bits.
    """
    match what:
        case ["plans"]:
            _plans(as_json)
        case ["status", folder]:
            _report(_opened(folder), as_json)
        case ["figures", folder]:
            _say_written(_figures(_opened(folder), Path(folder), format))
        case ["export", folder, file]:
            _opened(folder).to_netcdf(file)
            print(f"wrote {file}")
        case [action, *given] if action in NEEDS and (action, len(given)) not in (("run", 1),):
            raise ValueError(f"sweep {action} takes {NEEDS[action]}: tokenfield sweep {action} {NEEDS[action]}")
        case [plan] | ["run", plan]:
            engine = workers, scheduler, dask_local
            _sweep(plan, out, sets, dry_run, resume, not no_retry, format, overwrite, *engine, as_json)
        case _:
            raise ValueError(f"sweep takes {ABOUT} Got: {' '.join(what)}")


def _sweep(
    source: str,
    out: Path | None,
    sets: list[str] | None,
    dry_run: bool,
    resume: bool,
    retry: bool,
    format: str,
    overwrite: bool,
    workers: int | None,
    scheduler: str | None,
    dask_local: int | None,
    as_json: bool,
) -> None:
    from ..config.keys import assignment
    from ..sweep.plan import read_plan

    plan = read_plan(source, dict(assignment(text) for text in sets or []))
    folder = Path(plan.name) if out is None else out
    if scheduler is not None:
        from ..sweep.engines.scheduler_address import split_address

        split_address(scheduler)
    if dry_run:
        at_once = 1 if scheduler is not None else dask_local or workers or None
        _estimate(plan, folder, at_once, as_json)
        return
    engine: dict[str, Any] = {"scheduler": scheduler, "dask_workers": dask_local}
    if scheduler is None and dask_local is None and workers != 0:
        from .._cpus import available_cpus

        engine["workers"] = workers or available_cpus()
    elif workers:
        raise ValueError("--workers: give one of --workers, --scheduler and --dask-local")
    from ..sweep.run import sweep as run

    try:
        found = run(plan, folder, resume=resume, retry=retry, overwrite=overwrite, **engine)
    except KeyboardInterrupt:
        from ..sweep.stored import holds_sweep

        kept = f": {_counts(_opened(str(folder)).counts)}; --resume goes on" if holds_sweep(folder) else ""
        raise Interrupted(f"interrupted{kept}") from None
    written = _figures(found, folder, format)
    _report(found, as_json)
    if not as_json:
        _say_written(written)
    if found.counts["failed"]:
        raise typer.Exit(1)


def _opened(folder: str) -> Any:
    from ..sweep.result import SweepResult

    return SweepResult.open(folder)


def _counts(counts: dict[str, int]) -> str:
    return f"{counts['done']} of {counts['cells']} cells done, {counts['failed']} failed"


def _report(found: Any, as_json: bool) -> None:
    counts, failed = found.counts, found.failed
    if as_json:
        print(json.dumps({"plan": found.plan.name, **counts, "out": str(found.folder), "failures": failed}))
        return
    print(f"{found.plan.name}: {_counts(counts)}")
    for cell in failed[:10]:
        where = ", ".join(f"{name} = {value}" for name, value in cell.items() if name not in ("id", "error"))
        print(f"  failed at {where}: {cell['error']}")
    if len(failed) > 10:
        print(f"  and {len(failed) - 10} more: see --json")


def _figures(found: Any, folder: Path, format: str) -> list[Path]:
    """Draw one picture for each quantity of the plan that has any value, write the report, and return their files."""
    from ..report.story import write_story
    from ..sweep.folder import clear_errors
    from ..sweep.page import sweep_story
    from .folders import write_figure

    drawn = {name: found.plot(name) for name in found.plan.record if found.dataset[name].notnull().any()}
    with clear_errors(folder):
        for name, figure in drawn.items():
            write_figure(figure, folder / f"{name}.{format}")
        report = write_story(sweep_story(found, drawn, command_line()), folder)
    return [report, *(folder / f"{name}.{format}" for name in drawn)]


def _say_written(paths: list[Path]) -> None:
    """Print the files, the one to open last."""
    for path in paths[1:]:
        print(f"wrote {path}")
    if paths:
        say_open(paths[0])


def _plans(as_json: bool) -> None:
    from ..sweep.plan import read_plan, ready

    plans = {name: read_plan(name) for name in ready()}
    if as_json:
        print(json.dumps({name: {"about": plan.about, "cells": plan.count} for name, plan in plans.items()}))
        return
    for name, plan in plans.items():
        print(f"{name:22s} {plan.count:6d} cells  {plan.about}")


def _estimate(plan: Any, folder: Path, at_once: int | None, as_json: bool) -> None:
    """What a run would take, or the error with which it would be refused."""
    from .._memory import bytes_text
    from ..sweep.estimates import estimate
    from ..sweep.sizes import refuse_too_large
    from ..sweep.stored import holds_sweep

    refuse_too_large(plan, None if holds_sweep(folder) else folder)
    found = estimate(plan, at_once=at_once)
    if as_json:
        print(json.dumps(found._asdict()))
        return
    axes = ", ".join(f"{name} ({len(axis.expanded())})" for name, axis in plan.axes.items())
    print(f"{plan.name}: {found.cells} cells: {axes}, repeats ({plan.repeats})")
    print(
        f"{found.batches} batches of {found.shapes} shapes; {bytes_text(found.memory)} in memory "
        f"({bytes_text(found.runs)} for runs, beside what each process takes), up to {bytes_text(found.bytes)} on disk"
    )
    for failure in found.failures:
        print(failure)
    if found.seconds is None:
        print("no time can be given: every cell that was tried fails")
    else:
        print(f"about {duration(found.seconds)} on one core, and some time to compile each shape once")


def duration(seconds: float) -> str:
    """Seconds in words, roughly."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(seconds, 0.1):.2g} s"
