"""The command that is running, as it was typed."""

import shlex
import sys


def command_line() -> str:
    """Return `tokenfield` and its arguments, quoted for a shell."""
    return " ".join(["tokenfield", *map(shlex.quote, sys.argv[1:])])
