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
