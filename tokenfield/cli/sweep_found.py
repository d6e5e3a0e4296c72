"""Print the counts of a sweep; write its figures and its report."""

import json
from pathlib import Path
from typing import Any

from .command_line import command_line
from .folders import say_open, write_figure


def opened(folder: Path) -> Any:
    """Return the sweep in a folder."""
    from ..sweep.result import SweepResult

    return SweepResult.open(folder)


def count_text(counts: dict[str, int]) -> str:
    """Return the counts of finished and failed cells as text."""
    return f"{counts['done']} of {counts['cells']} cells done, {counts['failed']} failed"


def print_counts(found: Any, as_json: bool) -> None:
    """Print how many cells are done and which have failed."""
    counts, failed = found.counts, found.failed
    if as_json:
        print(json.dumps({"plan": found.plan.name, **counts, "out": str(found.folder), "failures": failed}))
        return
    print(f"{found.plan.name}: {count_text(counts)}")
    for cell in failed[:10]:
        where = ", ".join(f"{name} = {value}" for name, value in cell.items() if name not in ("id", "error"))
        print(f"  failed at {where}: {cell['error']}")
    if len(failed) > 10:
        print(f"  and {len(failed) - 10} more: see --json")


def draw(found: Any, folder: Path, format: str) -> list[Path]:
    """Draw one figure for each quantity of the plan that has values, write the report, and return the files."""
    from ..report.story import write_story
    from ..sweep.folder import one_line_errors
    from ..sweep.page import sweep_story

    drawn = {name: found.plot(name) for name in found.plan.record if found.dataset[name].notnull().any()}
    with one_line_errors(folder):
        for name, figure in drawn.items():
            write_figure(figure, folder / f"{name}.{format}")
        report = write_story(sweep_story(found, drawn, command_line(), format), folder)
    return [report, *(folder / f"{name}.{format}" for name in drawn)]


def say_written(paths: list[Path]) -> None:
    """Print the files; the last one is the one to open."""
    for path in paths[1:]:
        print(f"wrote {path}")
    if paths:
        say_open(paths[0])
