"""Progress messages on standard error, and how to silence them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_silent = False


@contextmanager
def quietly(silent: bool = True) -> Iterator[None]:
    """Show no progress bars and no messages while the block runs."""
    global _silent
    before, _silent = _silent, silent or _silent
    try:
        yield
    finally:
        _silent = before


def shows_progress() -> bool:
    """Return True if standard error is a terminal, unless silenced."""
    return sys.stderr.isatty() and not _silent


def say(message: str) -> None:
    """Print a line on standard error, unless silenced."""
    if not _silent:
        print(message, file=sys.stderr, flush=True)
