"""Ctrl-C: a command ends within seconds, even while a compiled program runs, which Python cannot interrupt.

Python calls signal handlers only between two of its own instructions, so never while XLA compiles or computes. Therefore a
thread is notified of every Ctrl-C through a socket. If the handler has not been called after `PATIENCE` seconds, the thread
ends the process. Nothing on disk is lost: files are replaced atomically, the operating system releases locks, and worker
processes end with their parent.
"""

import _thread
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

PATIENCE = 1.5  # seconds

_handled = 0
_checkpoints: list[Path] = []


def listen() -> None:
    """End this process on Ctrl-C, unless another handler is installed."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    ours, python = socket.socketpair()
    python.setblocking(False)
    signal.set_wakeup_fd(python.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _interrupt)
    threading.Thread(target=_watch, args=(ours, python), daemon=True).start()


@contextlib.contextmanager
def resumable_from(checkpoint: Path | None) -> Iterator[None]:
    """Make the message on Ctrl-C say, while the block runs, that the same command continues from this file."""
    if checkpoint is None:
        yield
        return
    _checkpoints.append(checkpoint)
    try:
        yield
    finally:
        _checkpoints.remove(checkpoint)


def interrupted() -> str:
    """Return the message on Ctrl-C: that the command was interrupted, and which checkpoint it saved."""
    checkpoints = [path for path in _checkpoints if path.exists()]
    return "interrupted" + (
        f"; saved in {checkpoints[-1]}: run the same command again to continue" if checkpoints else ""
    )


def leave(code: int) -> None:
    """End this process at once, without waiting for other threads."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C. Python drops exceptions during garbage collection, when JAX runs callbacks: then retry later."""
    global _handled
    _handled += 1
    if frame is not None and frame.f_code.co_name in ("_xla_gc_callback", "__del__"):
        threading.Timer(0.01, _again).start()
        return
    raise KeyboardInterrupt


def _again() -> None:
    """Send Ctrl-C once more, from another thread. On Windows `os.kill` would end the process instead."""
    if os.name == "nt":
        _thread.interrupt_main()
    else:
        os.kill(os.getpid(), signal.SIGINT)


def _watch(signals: socket.socket, python: socket.socket) -> None:
    """Wait for signals, and end the process if a Ctrl-C is not handled. `python` is Python's end of the socket; keep it open."""
    handled = 0
    while received := signals.recv(1):
        if received[0] != signal.SIGINT:
            continue
        deadline = time.monotonic() + PATIENCE
        while _handled <= handled and time.monotonic() < deadline:
            time.sleep(0.02)
        if _handled <= handled:
            print(f"tokenfield: {interrupted()}", file=sys.stderr, flush=True)
            leave(130)
        handled = _handled
