"""A bound on the number of compiled programs that a process keeps in memory.

JAX keeps every program forever. A program depends on functions of time and on the shape of the state, so every new lambda and
every new number of tokens adds about 15 MB.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax

F = TypeVar("F", bound=Callable[..., Any])
MOST_PROGRAMS = 400  # about 1.5 GB; the cache on disk is kept, and programs are loaded from it again
COMPILED = (
    "/jax/core/compile/backend_compile_duration"  # JAX's event for each program, loaded from disk or newly compiled
)
_lock = threading.Lock()
_count = {"programs": 0, "runs": 0}


def _compiled(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event == COMPILED:
        _count["programs"] += 1


jax.monitoring.register_event_duration_secs_listener(_compiled)


def bounded(function: F) -> F:
    """Decorate a function that runs programs: when no thread runs one anymore, clear JAX's caches if there are too many."""

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            _count["runs"] += 1
        try:
            return function(*args, **kwargs)
        finally:
            with _lock:
                _count["runs"] -= 1
                if _count["runs"] == 0 and _count["programs"] > MOST_PROGRAMS:
                    _count["programs"] = 0
                    jax.clear_caches()

    return cast(F, counted)
