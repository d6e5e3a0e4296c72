"""The folder of a sweep: one sweep at a time, and plain words when it cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"


@contextmanager
def clear_errors(folder: Path | None) -> Iterator[None]:
    """What the system says of a folder in one line: read-only, full. What was done by then is kept."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"--out: cannot write to {folder}: {reason}; --resume goes on with what is there") from error


@contextmanager
def alone_in(folder: Path | None) -> Iterator[None]:
    """Keep a second sweep out of the folder: each would undo what the other has written. The system lets go of the lock
    when a process ends, however it ends."""
    if folder is None:
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: {folder} is a file, not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None
    with lock:
        if not _locked(lock):
            raise ValueError(f"--out: another sweep is writing to {folder}")
        yield


def _locked(file: object) -> bool:
    try:
        import fcntl
    except ImportError:  # not on this system
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
