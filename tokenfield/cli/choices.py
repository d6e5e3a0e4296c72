"""Flags and the values they take, for help and for shell completion; read from the files of the package, without JAX."""

from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Any, Literal

import typer

from .._kinds import kinds_in, names_in

Format = Annotated[Literal["png", "pdf", "svg"], typer.Option("--format", help="Format of figures.")]


def flag(help: str, *names: str, values: Iterable[str] = ()) -> Any:
    """Return an option whose help text mentions its default.

    Args:
        help: the help text.
        names: names of the flag, if not that of the parameter.
        values: values that shell completion proposes.
    """
    known = list(values)
    return typer.Option(*names, help=help, show_default=False, autocompletion=(lambda: known) if known else None)


def kind_flag(help: str, package: str, base: str, *names: str) -> Any:
    """Return an option whose value is a kind of a family of classes, or a user's own class."""
    kinds = kinds_in(package, base)
    return flag(f"{help}: {', '.join(kinds)}, or your own module:Class.", *names, values=kinds)


def plan_names() -> list[str]:
    """Return the names of the sweep plans that are part of the package."""
    plans = files("tokenfield").joinpath("sweep", "plans")
    return sorted(path.name.removesuffix(".toml") for path in plans.iterdir())


def start_flag(help: str) -> Any:
    """Return an option that takes the name of an initial state."""
    starts = sorted([*names_in("states", "start"), *names_in("config", "start")])
    return flag(f"{help}: {', '.join(starts)}, or your own module:function.", values=starts)
