"""`tokenfield kinds`."""

import json
from typing import Annotated, Any

import typer


def kinds(
    modules: Annotated[
        list[str] | None,
        typer.Argument(help="Your own modules, whose classes are listed too.", metavar="MODULE", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List everything that TOML files, flags and sweeps can name, with parameters: kernels, norms, noises, states, starts, …"""
    from .._kinds import import_module

    for module in modules or ():
        import_module(module)
    listed = tables()
    if as_json:
        print(json.dumps(listed))
        return
    from rich.console import Console
    from rich.table import Table

    for table, rows in listed.items():
        shown = Table("kind", "what", "parameters", title=table, title_justify="left")
        for row in rows:
            shown.add_row(row["kind"], row["title"], ", ".join(row["parameters"]) or "none")
        Console(markup=False).print(shown)


def tables() -> dict[str, list[dict[str, Any]]]:
    """Return the available classes for each table of a TOML file."""
    from .._kinds import found, functions, parameters
    from ..attention.positions import AbstractPositions
    from ..config.observed import numbers_by_name, options_of
    from ..config.parts import AttentionPart, NoisePart, NormPart, SpacePart, StatePart
    from ..normalization import AbstractTokenMap
    from ..observables.series import labels_of

    families: dict[str, Any] = {
        "[attention], [cross]": AttentionPart.family,
        "[attention] positions": AbstractPositions,
        "[norm], [mlp_norm], [cross_norm]": NormPart.family,
        "[space]": SpacePart.family,
        "[norm] map": AbstractTokenMap,
        "[noise]": NoisePart.family,
        "[state]": StatePart.family,
    }
    listed = {
        table: [
            {"kind": kind, "title": each.title, "parameters": list(parameters(each.maker()))}
            for kind, each in found(family).items()
        ]
        for table, family in families.items()
    }
    listed["[tokens], [context]"] = [
        {"kind": name, "title": _first_words(each), "parameters": list(parameters(each))}
        for name, each in sorted(functions("start").items())
    ]
    listed["[observe], [record]"] = [
        {"kind": name, "title": labels_of(each).long_name, "parameters": options_of(each)}
        for name, each in sorted(numbers_by_name().items())
    ]
    return listed


def _first_words(function: Any) -> str:
    """Return the first sentence of a docstring."""
    return (function.__doc__ or "").strip().partition("\n")[0].partition(". ")[0].rstrip(".")
