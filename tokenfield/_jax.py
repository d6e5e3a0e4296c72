"""Switch JAX to double precision, and check that it is not used in a forked process.

Importing tokenfield switches JAX to 64 bits, for the whole process, unless `JAX_ENABLE_X64` is set in the environment.
Every module that needs JAX imports it after this one. Runs check that the switch is still on (`in_double`) instead of silently
computing in single precision.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ._cache import keep_compiled_code

F = TypeVar("F", bound=Callable[..., Any])

if "JAX_ENABLE_X64" not in os.environ:  # the user's setting is respected: runs raise an error in single precision
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"

_process = {"used": False, "forked": False}


def require_double() -> None:
    """Raise ValueError if JAX is in single precision, and RuntimeError in a process forked after JAX had started.

    The first call in a process switches on the cache of compiled programs on disk, so that the next process starts quickly.
    """
    import jax

    if _process["forked"]:
        raise RuntimeError(
            "this process was forked after JAX had started threads, which a fork does not copy: a run would hang. Start "
            'processes with multiprocessing.get_context("spawn")'
        )
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise ValueError(
            "JAX is in single precision, and tokenfield needs double: unset JAX_ENABLE_X64, or call "
            'jax.config.update("jax_enable_x64", True)'
        )
    if not _process["used"]:
        keep_compiled_code()
    _process["used"] = True


def in_double(function: F) -> F:
    """Decorate a function that computes with JAX so that it first calls `require_double`."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        require_double()
        return function(*args, **kwargs)

    return cast(F, checked)


def _in_child() -> None:
    """Record, in a forked child, whether JAX has started in the parent: by one of our runs, or because a backend exists.

    JAX has no public way to ask for backends without starting one. If the private way disappears, our runs are still detected.
    """
    backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
    _process["forked"] = _process["forked"] or _process["used"] or bool(backends)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
