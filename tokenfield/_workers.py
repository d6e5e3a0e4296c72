"""Worker processes that end with their parent."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor


def begin_worker(environment: Mapping[str, str]) -> None:
    """Set up a worker: it ignores Ctrl-C, which the parent handles, and ends when the parent does, even by kill -9."""
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def terminate(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool at once, without waiting for their work."""
    for process in list(pool._processes.values()):
        process.terminate()
