"""The folder of a sweep: plain words when it cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def clear_errors(folder: Path | None) -> Iterator[None]:
    """What the system says of a folder in one line: read-only, full. What was done by then is kept."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"--out: cannot write to {folder}: {reason}; --resume continues with what is there") from error
