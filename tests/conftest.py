"""Shared set-up: a persistent compilation cache, so that a second run of the tests compiles nothing."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """A process that keeps thousands of compiled programs runs out of memory maps; what is shared comes from the cache."""
    yield
    import jax

    jax.clear_caches()
