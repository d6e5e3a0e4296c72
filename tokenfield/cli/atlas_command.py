"""`tokenfield atlas`."""

from pathlib import Path
from typing import Annotated

import typer

from .._xla import compile_quickly
from .choices import Format


def atlas(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small experiments: under three minutes on two cores.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this claim (may be repeated).", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for index.html and atlas.json.")] = Path("atlas"),
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of claims measured at a time [the number of cores, at most 4].", show_default=False),
    ] = None,
    format: Format = "png",
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> int:
    """Check the claims of the literature by experiment; print a table and write a page."""
    import os

    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # the jobs share the cores
        os.environ.setdefault(threads, "1")
    if quick:  # compiling takes most of the time, and small experiments do not need optimized programs
        compile_quickly()
    from .._cpus import available_cpus
    from ..atlas.runner import run

    jobs = min(available_cpus(), 4) if jobs is None else jobs
    return run(quick=quick, only=only, folder=out, as_json=as_json, jobs=jobs, format=format)
