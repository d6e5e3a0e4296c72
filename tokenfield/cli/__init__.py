"""The command line. An error prints one line on standard error and sets a non-zero exit code; there is no traceback."""

import contextlib
import itertools
import os
import sys
from collections.abc import Sequence

from .._shown import LONGEST_MESSAGE, cut
from .interrupts import leave, listen


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 2 for bad input, 1 for a run that failed, 130 for Ctrl-C."""
    from typer import TyperException

    from .._cache import keep_compiled_code
    from .app import app
    from .errors import Interrupted

    keep_compiled_code()
    with contextlib.suppress(AttributeError, OSError):  # a file name may contain bytes that are not text
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if arguments is None:
        listen()
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _refuse_empty(given)
    try:
        code = app(given, prog_name="tokenfield", standalone_mode=False)
        if code == 130:  # Ctrl-C outside a run
            _interrupted("interrupted", arguments is None)
        sys.exit(code if isinstance(code, int) else 0)
    except TyperException as error:
        _fail(f"{error.format_message().replace('Value error, ', '')} (see {_help_of(error)})", 2)
    except (Interrupted, KeyboardInterrupt) as interrupt:
        _interrupted(str(interrupt) or "interrupted", arguments is None)
    except BrokenPipeError:
        sys.exit(0)
    except (ValueError, OSError) as error:
        _fail(str(error) or type(error).__name__, 2)
    except Exception as error:
        if os.environ.get("TOKENFIELD_TRACEBACK"):
            raise
        if _out_of_memory(error):
            _fail("out of memory: give fewer tokens, dimensions, layers or times", 2)
        message = cut(str(error), LONGEST_MESSAGE) or "an error without a message"
        _fail(f"{message} ({type(error).__name__}; TOKENFIELD_TRACEBACK=1 shows where)", 1)


def _help_of(error: Exception) -> str:
    """Return the command that shows the help for the command whose arguments were wrong."""
    context = getattr(error, "ctx", None)
    command = context.command_path.split()[1:] if context is not None else []
    return " ".join(["tokenfield", *command, "--help"])


def _out_of_memory(error: Exception) -> bool:
    """Return True for the errors that Python and JAX raise when memory is exhausted."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def _interrupted(message: str, at_once: bool) -> None:
    """Print the message and exit; with `at_once`, do not wait for threads that are still computing."""
    try:
        _fail(message, 130)
    finally:
        if at_once:
            leave(130)


def _fail(message: str, code: int) -> None:
    print("tokenfield: " + cut(message, LONGEST_MESSAGE + 100), file=sys.stderr)
    sys.exit(code)


def _refuse_empty(given: Sequence[str]) -> None:
    """Raise an error for an empty path, which would mean the current folder."""
    for flag, value in itertools.pairwise(
        part for text in given for part in text.split("=", 1 if text[:1] == "-" else 0)
    ):
        if flag.startswith("--") and not value:
            _fail(f"{flag} must not be empty: give a value, or omit it", 2)
