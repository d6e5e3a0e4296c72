"""Programs compiled with options for the CPU, which other backends do not get."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from . import LITTLE_OPTIMIZATION, on_cpu

FEW = 1 << 13  # numbers for which compiling takes longer than running


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


def compiled_by_size(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator like `jax.jit` with these options: small arrays are measured by a program that compiles quickly."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        quickly = jax.jit(function, compiler_options=LITTLE_OPTIMIZATION, **options)
        plainly = jax.jit(function, **options)

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            arrays = [leaf for leaf in jax.tree.leaves((arguments, named)) if eqx.is_array(leaf)]
            # Programs inside a program take no compiler options.
            inside = any(isinstance(array, jax.core.Tracer) for array in arrays)
            small = not inside and sum(array.size for array in arrays) <= FEW and on_cpu()
            return (quickly if small else plainly)(*arguments, **named)

        return call

    return decorate
