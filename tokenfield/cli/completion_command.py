"""`tokenfield completion`."""

from typing import Annotated, Literal

import typer


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell.", metavar="bash|zsh|fish")],
) -> None:
    """Print a script that completes commands, flags and their values in a shell; see below for how to load it."""
    from .app import app
    from .completion_scripts import SCRIPTS
    from .completion_tree import commands_of

    print(SCRIPTS[shell](commands_of(typer.main.get_command(app))), end="")
