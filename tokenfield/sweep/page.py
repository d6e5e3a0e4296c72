"""The report of a sweep."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.page import code, figure_bytes, image, table
from ..report.story import Story, dataset_rows
from .comparisons import axis_name, comparisons, value_text
from .result import SweepResult
from .stored import DATASET

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_FAILURES = 20
SNIPPET = """import tokenfield as tkf

found = tkf.sweep.SweepResult.open(".")
print(found.mean("{name}"))
found.plot("{name}").savefig("again.png")"""
ABOUT = {
    "equiangular": "Theory for tokens that start equiangular: the time at which their cosine reaches the threshold, compared with "
    "the time at which half of all pairs have. Random tokens follow it in high dimension only.",
    "critical_kappa": "Theory for very many tokens: the inverse noise above which disorder is unstable, compared with the point "
    "where the measured curve is halfway between its ends. In a finite system the two need not be equal.",
    "critical_gamma": "Theory for equiangular tokens.",
    "first_clusters": "Theory: the mode of the uniform law that grows fastest. Single runs differ by one or two.",
}
NONE = "The plan has no key `theory`, so the report has no predictions."


def sweep_story(
    found: SweepResult, figures: Mapping[str, "Figure"], command: str | None = None, format: str = "png"
) -> Story:
    """Return the report of a sweep.

    Args:
        found: a sweep.
        figures: the figure of each quantity, by name.
        command: the command that made it, if it is known.
        format: format of the figures beside the page: "png", "pdf" or "svg".
    """
    plan = found.plan
    names = {name: str(found.dataset[name].attrs["long_name"]) for name in plan.record}
    axes = ", ".join(f"{axis} ({len(values.expanded())} values)" for axis, values in plan.axes.items())
    listed = [f"the {label}" for label in names.values()]
    every = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    question = f"How {'does' if len(listed) == 1 else 'do'} {every} depend on {axes}?"
    first = next(iter(names))
    rows = list(comparisons(found))
    pictures = [
        (
            _title(names[name]),
            image(figure_bytes(figure), f"{names[name]} over {axes}. {answer(found, name)}", wide=True),
        )
        for name, figure in figures.items()
    ]
    failures = [("Cells that failed", _failures(found))] if found.failed else []
    files = {DATASET: "every recorded number of every cell, with the plan"}
    files |= {f"{name}.{format}": f"figure: {names[name]}" for name in figures}
    about = ABOUT.get(plan.theory or "", NONE)
    return Story(
        title=f"Sweep: {plan.name}",
        question=f"{plan.about} {question}" if plan.about else question,
        answer=answer(found, first),
        more=_counts(found),
        comparisons=rows,
        about_comparisons=about
        if rows or not plan.theory
        else f"{about} No cell of this sweep can be compared with it.",
        evidence=[*pictures, *failures],
        files=files,
        snippet=SNIPPET.format(name=first),
        command=command,
        details=[("Plan", code(plan_text(found))), ("Versions", table(dataset_rows(_versions(found))))],
    )


def answer(found: SweepResult, name: str) -> str:
    """Return a sentence with the range of a quantity, and where its ends are reached."""
    mean, label = found.mean(name), str(found.dataset[name].attrs["long_name"])
    values = mean.values
    if not np.isfinite(values).any():
        return f"No run gave a value of the {label}."
    ends = []
    for place in (np.nanargmin(values), np.nanargmax(values)):
        where = mean.isel(dict(zip(mean.dims, np.unravel_index(place, values.shape), strict=True)))
        at = ", ".join(f"{axis_name(str(axis))} = {value_text(where[axis].item())}" for axis in mean.dims)
        ends.append(f"{float(where):.3g} (at {at})")
    over = f", averaged over {found.plan.repeats} repeats," if found.plan.repeats > 1 else ""
    return f"The {label}{over} ranges from {ends[0]} to {ends[1]}."


def plan_text(found: SweepResult) -> str:
    """Return the plan as JSON, without default values."""
    return json.dumps(found.plan.model_dump(exclude_none=True, exclude_defaults=True, mode="json"), indent=1)


def _counts(found: SweepResult) -> str:
    counts = found.counts
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    missing = counts["cells"] - counts["done"] - counts["failed"]
    left = f", {missing} not run yet" if missing else ""
    return f"{counts['done']} of {counts['cells']} cells are done{failed}{left}."


def _failures(found: SweepResult) -> str:
    rows = []
    for cell in found.failed[:MOST_FAILURES]:
        where = ", ".join(f"{name} = {value}" for name, value in cell.items() if name not in ("id", "error"))
        rows.append((where, cell["error"]))
    return table(rows, head=("cell", "error"))


def _versions(found: SweepResult) -> dict[str, Any]:
    return {str(name): value for name, value in found.dataset.attrs.items() if name not in ("plan", "config")}


def _title(label: str) -> str:
    return label[:1].upper() + label[1:]
