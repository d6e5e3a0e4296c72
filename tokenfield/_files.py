"""Atomic replacement of files and folders: a kill at any moment leaves either the old or the new one complete.

New content is written under a unique temporary name. A file is then moved over the old one. This is not possible for a folder:
the old one is first renamed, to a name under which it is still found (`current`), and deleted when the new one is in place.
Symbolic links are themselves replaced or deleted, never their targets.
"""

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ._shown import shown

PATIENCE = 2.0 if os.name == "nt" else 0.0  # seconds: Windows cannot move a file that a virus scanner has open


def present(path: Path) -> bool:
    """Return True if there is anything at a path, a dangling link included."""
    return os.path.lexists(path)


def refuse_foreign(folder: Path, ours: Iterable[str], overwrite: bool | None) -> None:
    """Raise ValueError if a folder has files but none of `ours`: it is used for something else.

    `overwrite` is None for a command that has no such flag.
    """
    held = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
    if held and not overwrite and not set(held) & set(ours):
        hint = "" if overwrite is None else ", or --overwrite"
        raise ValueError(f"--out: {folder} holds other files, such as {shown(held[0])}: give a new folder{hint}")


def aside(target: Path) -> Path:
    """Return the path of the old folder while a new one takes its place."""
    return target.with_name(f".old-{target.name}")


def current(target: Path) -> Path:
    """Return the folder at `target`, or the old one if the process was killed while it was being replaced."""
    return aside(target) if not present(target) and present(aside(target)) else target


def recover(target: Path) -> None:
    """Restore a folder that a killed process had moved aside, and delete the temporary files that it left.

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
    """Delete a file, a link (not its target) or a folder, if it exists.

    A folder is renamed first, so that a kill never leaves part of it under its name.
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
    """Yield a temporary path in the same folder; the file written there replaces `target` at the end of the block.

    If the block raises, the temporary file is deleted and `target` is unchanged. The suffix is that of `target`.
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
