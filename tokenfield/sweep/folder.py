"""One-line errors for a sweep folder that cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_line_errors(folder: Path | None) -> Iterator[None]:
    """Replace system errors about a folder (read-only, full) by one line. Finished cells are saved."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"--out: cannot write to {folder}: {reason}; --resume continues") from error
