"""File locks for everything that is written: run folders, sweeps, probes, checkpoints, saved runs.

The operating system releases a lock when its process ends in any way, so a kill leaves no stale lock.
"""

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from ._files import present, recover
from ._shown import shown

F = TypeVar("F", bound=Callable[..., Any])

WINDOWS = os.name == "nt"  # where an open file cannot be deleted
_held: dict[Path, int] = {}


@contextlib.contextmanager
def locked(file: Path, message: str, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock file, or raise ValueError(message) if another process or thread still holds it after `wait` seconds.

    The lock is reentrant within a thread. The file is deleted at the end.
    """
    key, me = file.parent.resolve() / file.name, threading.get_ident()
    if _held.get(key) == me:
        yield
        return
    deadline = time.monotonic() + wait
    while (descriptor := _acquired(file)) is None:
        if time.monotonic() >= deadline:
            raise ValueError(message)
        time.sleep(0.02)
    _held[key] = me
    try:
        yield
    finally:
        del _held[key]
        if not WINDOWS:
            with contextlib.suppress(OSError):
                file.unlink()  # while it is locked: a process that opened it meanwhile sees that, and makes a new one
        os.close(descriptor)
        if WINDOWS:
            with contextlib.suppress(OSError):
                file.unlink()  # which fails if another process has opened it meanwhile


@contextlib.contextmanager
def alone_in(folder: Path | None, what: str = "run") -> Iterator[None]:
    """Create a folder and lock it, because two processes would overwrite each other's files."""
    if folder is None:
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: {folder} is a file, not a folder")
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder / ".lock", f"--out: another {what} is writing to {folder}"))
        except OSError as error:
            raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None
        yield


@contextlib.contextmanager
def alone_with(path: Path, name: str, wait: float = 0.0) -> Iterator[None]:
    """Lock a file or folder given by the argument `name`, and clean up after a killed process."""
    with contextlib.ExitStack() as stack:
        try:
            busy = f"{name}: another process is using {path}: wait for it, or give another path"
            stack.enter_context(locked(path.with_name(f".lock-{path.name}"), busy, wait))
        except OSError as error:
            raise ValueError(f"{name}: cannot write to {path}: {error.strerror}") from None
        recover(path)
        yield


def locking(argument: str, folder: bool = False) -> Callable[[F], F]:
    """Decorate a function that needs exclusive access to a file, given by a keyword argument (None: no file).

    Args:
        argument: name of the keyword argument.
        folder: True if it is a folder into which the function writes.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def alone(*args: Any, **kwargs: Any) -> Any:
            path: Any = kwargs.get(argument)
            if path is None:
                return function(*args, **kwargs)
            if not isinstance(path, str | os.PathLike):
                raise ValueError(f"{argument} must be the path of a file or a folder, got {shown(path)}")
            with alone_in(Path(path)) if folder else alone_with(Path(path), argument):
                return function(*args, **kwargs)

        return cast(F, alone)

    return decorate


def _acquired(file: Path) -> int | None:
    """Return the descriptor of a lock file that is now locked; None if someone else has it."""
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except PermissionError:
            if WINDOWS and present(file):  # it is being deleted
                return None
            raise
        try:
            free = _lock(descriptor)
            locked = free and (WINDOWS or _is_at(descriptor, file))
        except BaseException:
            os.close(descriptor)
            raise
        if locked:
            return descriptor
        os.close(descriptor)
        if not free:
            return None


def _is_at(descriptor: int, file: Path) -> bool:
    """Return False if the process that held the lock deleted the file after it was opened here."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
