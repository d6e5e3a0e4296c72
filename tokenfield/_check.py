"""Input checks. Every message names the argument, what came and what is allowed."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def is_concrete(*values: Any) -> bool:
    """False inside jit, vmap or grad, where values cannot be looked at."""
    return not any(isinstance(value, jax.core.Tracer) for value in values)


def as_float(name: str, value: Any, ndim: int | tuple[int, ...] | None = None) -> Array:
    """`value` as a float64 array (float32 stays) of the allowed number of axes, finite."""
    try:
        array = _array(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}") from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        if not (jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool):
            raise ValueError(f"{name} must be real, got dtype {array.dtype}")
        array = array.astype(jnp.float64)
    if array.weak_type:  # of Python numbers: it would compile everything anew
        array = array.astype(array.dtype)
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and array.ndim not in allowed:
        shapes = " or ".join({0: "a number", 1: "a vector", 2: "a matrix"}[k] for k in allowed)
        raise ValueError(f"{name} must be {shapes}, got shape {array.shape}")
    if is_concrete(array) and not np.isfinite(np.asarray(array)).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(array)))[0])
        place = f" at index {where}" if where else ""
        raise ValueError(f"{name} must be finite, got {np.asarray(array)[where]}{place}")
    return array


def _array(value: Any) -> Array:
    """As an array of JAX; plain numbers go through NumPy, which compiles nothing."""
    if not isinstance(value, (jax.Array, jax.core.Tracer)):
        try:
            plain = np.array(value)  # a copy: what is handed over must not change
        except (jax.errors.TracerArrayConversionError, ValueError, TypeError):
            return jnp.asarray(value)
        if plain.dtype.kind in "iub":
            return handed_over(plain.astype(np.float64))
        if plain.dtype.kind == "f":
            return handed_over(plain)
    return jnp.asarray(value)


def handed_over(array: np.ndarray) -> Array:
    """A NumPy array as one of JAX, which may keep its memory: it must not change afterwards. `jnp.asarray(array)` without
    the dtype would compile a program for every shape."""
    return jnp.asarray(array, array.dtype)


def parameter(name: str, value: Any, ndim: int | tuple[int, ...]) -> Array | Callable | None:
    """A model parameter: None, an array, or a function of time (left as it is)."""
    if value is None or callable(value):
        return value
    return as_float(name, value, ndim)


def shape_of(name: str, value: Array | Callable) -> tuple[int, ...]:
    """The shape of a model parameter; for a function of time, of its value at time 0."""
    if not callable(value):
        return value.shape
    try:
        return jax.eval_shape(lambda t: jnp.asarray(value(t), float), jnp.zeros(())).shape
    except jax.errors.JAXTypeError as error:
        raise ValueError(f"{name}(t) must use jax.numpy: numpy, math and `if` do not work on the time t") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}(t) must be a number or an array for every time t: {error}") from error


def items(name: str, value: Any, what: str) -> tuple[Any, ...]:
    """The items of a list."""
    try:
        return tuple(value)
    except TypeError:
        raise ValueError(f"{name} must be a list of {what}, got {type(value).__name__}") from None


def positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """`value` as a finite float that is > 0 (or >= 0)."""
    bound = ">= 0" if or_zero else "> 0"
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a number {bound}, got {value!r}") from error
    if not math.isfinite(number) or number < 0 or (number == 0 and not or_zero):
        raise ValueError(f"{name} must be finite and {bound}, got {value!r}")
    return number


def count(name: str, value: Any, least: int = 1) -> int:
    """`value` as an integer of at least `least`."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = least - 1
    if isinstance(value, bool) or number != value or number < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return number


def generator(seed: Any) -> np.random.Generator:
    """The generator of random numbers of a seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}") from None
