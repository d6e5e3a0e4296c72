"""Files and folders on disk: replaced in one step, so that a kill at any moment leaves the old one or the new one whole.

What is new is written under a unique temporary name. A file is then moved over the old one. A folder cannot be: the old
one is renamed first, to a name by which it is still found (`current`), and deleted when the new one is in place. Symbolic
links are replaced or deleted themselves, never what they point to.
"""

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE = 2.0 if os.name == "nt" else 0.0  # seconds: Windows moves no file that a virus scanner or an indexer has open


def present(path: Path) -> bool:
    """Return True if there is anything at a path, a dangling link included."""
    return os.path.lexists(path)


def aside(target: Path) -> Path:
    """Where the old folder is while a new one takes its place."""
    return target.with_name(f".old-{target.name}")


def current(target: Path) -> Path:
    """Return the folder at `target`, or the old one if a kill came between moving that aside and putting the new one in place."""
    return aside(target) if not present(target) and present(aside(target)) else target


def recover(target: Path) -> None:
    """Bring a folder back that a killed process had moved aside, and delete temporary files that it left.

    Only the process that holds the lock of `target` may call this.
    """
    if current(target) != target:
        rename(aside(target), target)
    remove(aside(target))
    name = re.compile(rf"\.part-\d+-[0-9a-f]{{8}}-(\.old-)?{re.escape(target.name)}")
    if target.parent.is_dir():
        for path in target.parent.iterdir():
            if name.fullmatch(path.name):
                remove(path)


def remove(path: Path) -> None:
    """Delete a file, a link (not what it points to) or a folder, if it is there.

    A folder is renamed first: a kill leaves no half of it under its name.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    if not path.name.startswith(".part-"):
        part = _temporary(path)
        rename(path, part)
        path = part
    for _ in range(50):  # threads of Zarr may still be writing into it for a moment
        shutil.rmtree(path, ignore_errors=True)
        if not present(path):
            return
        time.sleep(0.01)


def rename(old: Path, new: Path, move: Callable[[Path, Path], None] = os.rename) -> None:
    """Rename a file or a folder; on Windows, wait a moment while another process has it open."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            move(old, new)
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _temporary(target: Path) -> Path:
    return target.with_name(f".part-{os.getpid()}-{secrets.token_hex(4)}-{target.name}")


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; what is written there replaces `target` at the end of the block.

    If the block raises, what was written is deleted and `target` stays as it was. The suffix is that of `target`.
    """
    part = _temporary(target)
    try:
        yield part
        if part.is_dir() and present(target):
            remove(aside(target))
            rename(target, aside(target))
        rename(part, target, os.replace)
    except BaseException:
        if current(target) != target:
            rename(aside(target), target)
        remove(part)
        raise
    if target.is_dir():
        remove(aside(target))


def write_text(target: Path, text: str) -> None:
    """Write a text file in one step."""
    with replacing(target) as part:
        part.write_text(text, encoding="utf-8")
