"""`tokenfield sweep` and its subcommands."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from .choices import Format, plan_names
from .examples import epilog
from .plain_help import PlainHelp
from .quiet_flag import with_quiet
from .sweep_found import draw, opened, print_counts, say_written
from .sweep_run_command import run

Folder = Annotated[Path, typer.Argument(help="Folder of the sweep.", metavar="DIR")]


class SweepGroup(TyperGroup):
    """The subcommands; a plan given without a subcommand is run."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if not args:
            ctx.fail(f"sweep needs one of {', '.join(self.commands)}")
        return super().parse_args(ctx, ["run", *args] if self._is_plan(args[0]) else args)

    def _is_plan(self, word: str) -> bool:
        if word in self.commands:
            return False
        return word.endswith(".toml") or word in plan_names() or Path(word).is_file()


def status(
    folder: Folder, as_json: Annotated[bool, typer.Option("--json", help="Print counts and failures as JSON.")] = False
) -> None:
    """Count finished and failed cells, even while the sweep runs."""
    print_counts(opened(folder), as_json)


def figures(folder: Folder, format: Format = "png") -> None:
    """Draw the figures and the report of a sweep again."""
    say_written(draw(opened(folder), folder, format))


def export(folder: Folder, file: Annotated[Path, typer.Argument(help="File to write.", metavar="FILE.nc")]) -> None:
    """Write the dataset of a sweep as a NetCDF file.

    Needs the extra "netcdf": pip install -e ".[netcdf]" in the folder of tokenfield.
    """
    opened(folder).to_netcdf(file)
    print(f"wrote {file}")


def plans(as_json: Annotated[bool, typer.Option("--json", help="Print the plans as JSON.")] = False) -> None:
    """List the plans that are part of the package."""
    from ..sweep.plan import read_plan

    found = {name: read_plan(name) for name in plan_names()}
    if as_json:
        print(json.dumps({name: {"about": plan.about, "cells": plan.count} for name, plan in found.items()}))
        return
    for name, plan in found.items():
        print(f"{name:22s} {plan.count:6d} cells  {plan.about}")


sweep = typer.Typer(
    cls=SweepGroup,
    rich_markup_mode=None,
    help="Run a model over a grid of parameters and seeds: resumable, in processes or on a Dask cluster.",
    epilog=epilog("sweep"),
)
for command in (run, status, figures, export, plans):
    sweep.command(command.__name__, cls=PlainHelp, epilog=epilog(f"sweep {command.__name__}"))(with_quiet(command))
