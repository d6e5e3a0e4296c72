"""Shared set-up: programs that compile quickly, and a cache of them, so that a second run compiles nothing.

Small problems spend most of their time in the compiler, so it optimizes little here: a quarter of the time, and the same
arithmetic but for the last bit. `XLA_FLAGS= make test` compiles as users do.
"""

import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from tokenfield.cli.atlas_command import COMPILE_QUICKLY  # imports no JAX

ROOT = Path(__file__).parent.parent
PROGRAMS_OF_A_TABLE = 100
os.environ.setdefault("XLA_FLAGS", COMPILE_QUICKLY)
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # two processes share the cores already
    os.environ.setdefault(threads, "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # no program carries the lines it came from
sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job in the background, whose children ignore Ctrl-C too
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.set_threshold(50_000, 20, 20)  # tracing makes many objects that live: look for garbage less often


def pytest_collection_finish():
    """Share the compiler's table of dialects: JAX fills a new one for each program, longer than it lowers a small one.

    A table keeps the constants of its programs, so there is a new one every now and then. Where JAX has no such function
    everything works as before, only slower.
    """
    try:
        from jax._src.interpreters import mlir
    except ImportError:
        return

    make, shared = getattr(mlir, "make_ir_context", None), threading.local()  # no two threads write into one table
    if make is None:
        return

    def context():
        shared.programs = getattr(shared, "programs", 0) + 1
        if shared.programs % PROGRAMS_OF_A_TABLE == 1:
            shared.table = make()
        return shared.table

    mlir.make_ir_context = context


def resident() -> int:
    """Bytes of memory that this process holds; 0 where that is not known."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


kept = {"bytes": 0}


@pytest.fixture(autouse=True)
def forget_programs():
    """A process that keeps thousands of compiled programs runs out of memory, and of memory maps."""
    yield
    if resident() > kept["bytes"] + 2.5e9:
        import jax

        jax.clear_caches()
        kept["bytes"] = resident()
