"""Programs compiled with options for the CPU, which other backends do not get."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx

from . import LITTLE_OPTIMIZATION, on_cpu


def compiled(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """Compile `function`, on a CPU with these options. Which backend there is, is only asked when it is called."""

    @functools.cache
    def program(options_apply: bool) -> Any:
        return eqx.filter_jit(function, compiler_options=options if options_apply else None)  # type: ignore[call-overload]

    @functools.wraps(function, updated=())
    def call(*arguments: Any) -> Any:
        return program(on_cpu() and bool(options))(*arguments)

    return call


def compiled_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is called once in a run: with little optimization, because compiling takes longer than running."""
    return compiled(function, LITTLE_OPTIMIZATION)
