"""Shared set-up: programs that compile quickly, and a cache of them, so that a second run compiles nothing.

Small problems spend most of their time in the compiler, so it optimizes little here: a quarter of the time, and the same
arithmetic but for the last bit. `XLA_FLAGS= make test` compiles as users do.
"""

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path

import pytest

from tokenfield._xla import COMPILE_QUICKLY  # imports no JAX

ROOT = Path(__file__).parent.parent
os.environ.setdefault("XLA_FLAGS", COMPILE_QUICKLY)
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # two processes share the cores already
    os.environ.setdefault(threads, "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # no program carries the lines it came from
sys.path.insert(0, str(Path(__file__).parent))

import grids  # noqa: E402
import shapes  # noqa: E402  (after the settings of JAX, which it imports)

shapes.install()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job in the background, whose children ignore Ctrl-C too
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.set_threshold(50_000, 20, 20)  # tracing makes many objects that live: look for garbage less often


def pytest_addoption(parser):
    """How much to test: minutes by default, half an hour with `make test-all`, a night with `make fuzz`."""
    parser.addoption("--all", action="store_true", help="run all cases of tests marked `grid` or `slow`")
    parser.addoption("--fuzz", type=float, default=1.0, help="factor on the number of inputs in tests/fuzz")
    parser.addoption("--draws", type=int, default=133, help="number of random draws in tests/independent")


LONGEST = (
    "test_readme_prints_what_it_says",
    "test_core_contracts_with_the_flags_of_users",
    "test_engine_against_tokenfield",
)


def pytest_collection_modifyitems(config, items):
    """Leave out most cases of slow tests and of grids, unless `--all` is given. Begin with the longest tests.

    A long test at the end would keep one process busy while the others have nothing left to do.
    """
    if not config.getoption("--all"):
        items[:], left_out = grids.split(items)
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: item.name not in LONGEST)


def pytest_collection_finish():
    """Let tests share compiled programs: `forget_programs` bounds them by the memory that they hold."""
    from tokenfield._xla import programs

    programs.MOST_PROGRAMS = 10**6


def resident() -> int:
    """Bytes of memory that this process holds; 0 where that is not known."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


last = {"bytes": 0}


@pytest.fixture(autouse=True)
def forget_programs():
    """A process that keeps thousands of compiled programs runs out of memory, and of memory maps."""
    yield
    if resident() > last["bytes"] + 5e9:
        import jax

        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":  # what programs held goes back to the system
            ctypes.CDLL(None).malloc_trim(0)
        last["bytes"] = resident()
