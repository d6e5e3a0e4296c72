"""Arrays that are materialized once, arrays that are passed to JAX without compilation, and programs that run only once."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import LITTLE_OPTIMIZATION, on_cpu

FEW = 1 << 13  # numbers for which compiling takes longer than running


def materialize(a: Array, never: Array) -> Array:
    """Return `a`, materialized: computed once and written to memory before anything reads it.

    Otherwise XLA would recompute it in every loop that reads it, or read it through a transpose; optimization barriers do not
    prevent this. XLA does not optimize across a branch whose condition it does not know.

    Args:
        a: any array.
        never: a condition that is never true, but whose value the compiler does not know.
    """
    return jax.lax.cond(never, jnp.zeros_like, lambda a: a, a) if on_cpu() else a


def from_numpy(array: np.ndarray) -> Array:
    """Return a NumPy array as a JAX array. They may share memory, so the NumPy array must not change afterwards.

    `jnp.asarray(array)` without the dtype would compile a program for every shape.
    """
    return jnp.asarray(array, array.dtype)


def compiled_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is called once in a run: with little optimization, because compiling takes longer than running."""
    quickly: Any = eqx.filter_jit(function, compiler_options=LITTLE_OPTIMIZATION)  # type: ignore[call-overload]
    plainly: Any = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return (quickly if on_cpu() else plainly)(*arguments)

    return call


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
