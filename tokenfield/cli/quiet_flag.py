"""The flag --quiet, the same for every command."""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .._quiet import quietly

HELP = "Print nothing but errors, and JSON if asked for."


def with_quiet(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the flag `--quiet`.

    With it, no progress is shown, and standard output is discarded unless `--json` was given.
    """
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def wrapped(*, quiet: bool, **options: Any) -> Any:
        with contextlib.ExitStack() as stack:
            if quiet:
                stack.enter_context(quietly())
                if not options.get("as_json"):
                    nothing = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                    stack.enter_context(contextlib.redirect_stdout(nothing))
            return command(**options)

    flag = inspect.Parameter(
        "quiet",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--quiet", "-q", help=HELP)],
    )
    wrapped.__signature__ = signature.replace(parameters=[*signature.parameters.values(), flag])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {**inspect.get_annotations(command, eval_str=True), "quiet": flag.annotation}
    return wrapped
