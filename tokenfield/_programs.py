"""A bound on the compiled programs that a process keeps.

JAX keeps every program for ever. A function of time is part of its program, and so is the shape of a state: every new lambda and
every new number of tokens leaves about 15 MB behind.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax

F = TypeVar("F", bound=Callable[..., Any])
MOST_PROGRAMS = 400  # about 1.5 GB; those on disk stay there, and are read again
COMPILED = "/jax/core/compile/backend_compile_duration"  # what JAX reports for each program, from disk or new
_lock = threading.Lock()
_count = {"programs": 0, "runs": 0}


def _compiled(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event == COMPILED:
        _count["programs"] += 1


jax.monitoring.register_event_duration_secs_listener(_compiled)


def bounded(function: F) -> F:
    """Decorate a function that runs programs: when it ends, and no other thread runs any, JAX forgets them if they are many."""

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
