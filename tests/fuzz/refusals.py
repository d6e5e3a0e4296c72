"""What a refusal must look like, whatever the bad input: our own check, one line, not long."""

import signal
import traceback
from contextlib import contextmanager
from pathlib import Path

import tokenfield

PACKAGE = str(Path(tokenfield.__file__).parent)
LONGEST = 700
PATIENCE = 60  # seconds for one input


def raw(error: BaseException, printed: bool = False) -> str | None:
    """What is wrong with an error that bad input has raised, or None for a clear refusal by the package's own checks.

    The command line puts messages into one short line when it prints them: `printed`.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error)
    place = f"{type(error).__name__} at {last.filename}:{last.lineno}: {message[:300]!r}"
    if not isinstance(error, (ValueError, TypeError, FileNotFoundError, tokenfield.SolverError)):
        return place
    if not last.filename.startswith(PACKAGE) or not (last.line or "").startswith("raise"):
        return f"not our own check: {place}"
    if not printed and (not message or len(message.splitlines()) > 1 or len(message) > LONGEST):
        return f"a message of {len(message.splitlines())} lines and {len(message)} characters: {place}"
    return None


class Hangs(BaseException):
    """An input that takes too long."""


@contextmanager
def in_time():
    """End the block after `PATIENCE` seconds."""

    def stop(*_):
        raise Hangs(f"not done within {PATIENCE} s")

    if not hasattr(signal, "SIGALRM"):  # Windows: an input that hangs is not ended
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def report(faults: list[str]) -> str:
    """The faults, one a line, each kind once."""
    kinds: dict[str, str] = {}
    for fault in faults:
        kinds.setdefault(fault.partition(" <- ")[0], fault)
    return f"{len(faults)} raw errors of {len(kinds)} kinds\n" + "\n".join(kinds.values())
