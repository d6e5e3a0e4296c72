"""`tokenfield sweep run`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .choices import Format, plan_names
from .errors import Interrupted
from .sweep_found import count_text, draw, opened, print_counts, say_written


def run(
    plan: Annotated[
        str,
        typer.Argument(
            help="A TOML file, or the name of a plan of the package.", metavar="PLAN", autocompletion=plan_names
        ),
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
        bool, typer.Option("--resume", help="Continue the sweep in the folder; failed cells are run again.")
    ] = False,
    no_retry: Annotated[bool, typer.Option("--no-retry", help="With --resume, do not run failed cells again.")] = False,
    format: Format = "png",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a sweep in the folder.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Number of local processes [one per core; 0: this process].", show_default=False, min=0),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, e.g. tcp://127.0.0.1:8786.", show_default=False)
    ] = None,
    dask_local: Annotated[
        int | None,
        typer.Option(help="Run on a local Dask cluster with this number of workers.", show_default=False, min=1),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and failures as JSON.")] = False,
) -> None:
    """Run a plan: a TOML file, or a plan of the package.

    The folder gets the dataset, figures and a report.
    A killed sweep loses at most the cells that were running; --resume finishes it with the same bits.

    Only --scheduler and --dask-local need the extra "dask": pip install -e ".[dask]" in the folder of tokenfield.
    """
    from ..config.keys import assignment
    from ..sweep.plan import read_plan

    chosen = read_plan(plan, dict(assignment(text) for text in sets or []))
    folder = Path(chosen.name) if out is None else out
    if scheduler is not None:
        from ..sweep.engines.scheduler_address import split_address

        split_address(scheduler)
    if dry_run:
        at_once = 1 if scheduler is not None or workers == 0 else dask_local or workers
        _estimate(chosen, folder, at_once, as_json)
        return
    engine: dict[str, Any] = {"scheduler": scheduler, "dask_workers": dask_local}
    if scheduler is None and dask_local is None and workers != 0:
        from .._cpus import available_cpus

        engine["workers"] = workers or available_cpus()
    elif workers:
        raise ValueError("--workers: give only one of --workers, --scheduler and --dask-local")
    from ..sweep.run import sweep

    try:
        found = sweep(chosen, folder, resume=resume, retry=not no_retry, overwrite=overwrite, **engine)
    except KeyboardInterrupt:
        from ..sweep.stored import holds_sweep

        progress_text = f": {count_text(opened(folder).counts)}; --resume continues" if holds_sweep(folder) else ""
        raise Interrupted(f"interrupted{progress_text}") from None
    written = draw(found, folder, format)
    print_counts(found, as_json)
    if not as_json:
        say_written(written)
    if found.counts["failed"]:
        raise typer.Exit(1)


def _estimate(plan: Any, folder: Path, at_once: int | None, as_json: bool) -> None:
    """Print the estimated cost of a run, or raise the error with which the run would stop."""
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
        f"({bytes_text(found.runs)} for runs, plus the memory of each process), up to {bytes_text(found.bytes)} on disk"
    )
    for failure in found.failures:
        print(failure)
    if found.seconds is None:
        print("no time estimate: every cell that was tried fails")
    else:
        print(f"about {_time_text(found)}, and some time to compile each shape once")


def _time_text(found: Any) -> str:
    """Return the estimated time: of the batches that run at once if there are cores for them, and of one core."""
    from .._cpus import available_cpus

    alone, cores = f"{_duration(found.seconds)} on one core", min(found.at_once, available_cpus())
    return alone if cores == 1 else f"{_duration(found.seconds / cores)} on {cores} cores ({alone})"


def _duration(seconds: float) -> str:
    """Return a rough duration as text."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{max(seconds, 0.1):.2g} s"
