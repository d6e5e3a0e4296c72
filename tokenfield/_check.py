"""Input checks. Every message names the argument, what was given and what is allowed."""

import math
import numbers
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._jax import require_double
from ._shown import shown
from ._xla.arrays import from_numpy

LARGEST = 2**63 - 1  # largest whole number


def _check_device() -> None:
    """Raise a ValueError if the platform in JAX_PLATFORMS is not available; JAX's own error has no message."""
    wanted = jax.config.jax_platforms  # type: ignore[attr-defined]
    if wanted in (None, "", "cpu"):
        return
    try:
        jax.devices()
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"JAX_PLATFORMS={wanted}: JAX finds no such device here: unset it or set JAX_PLATFORMS=cpu, or install JAX for it"
        ) from None


_check_device()


def is_concrete(*values: Any) -> bool:
    """Return True if the values are known: False inside jit, vmap or grad."""
    return not any(isinstance(value, jax.core.Tracer) for value in values)


def has_values(*values: Any) -> bool:
    """Return True if all values are arrays of known numbers, neither traced nor placeholders in a pytree."""
    return all(isinstance(value, (Array, np.ndarray)) for value in values) and is_concrete(*values)


def as_float(name: str, value: Any, ndim: int | tuple[int, ...] | None = None) -> Array:
    """Return `value` as a finite float64 array (float32 stays) with an allowed number of axes."""
    require_double()
    try:
        array = _array(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number or an array of numbers, got {shown(value)}") from error
    if not jnp.issubdtype(array.dtype, jnp.floating):
        if not (jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool):
            raise ValueError(f"{name} must be real, got dtype {array.dtype}")
        array = array.astype(jnp.float64)
    if array.dtype not in (jnp.float32, jnp.float64):  # half precision, which linear algebra does not support
        array = array.astype(jnp.float64)
    if array.weak_type:  # from Python numbers: weak types would cause a recompilation
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
    """Return a JAX array; plain numbers are converted by NumPy, which compiles nothing."""
    if not isinstance(value, (jax.Array, jax.core.Tracer)):
        try:
            plain = np.array(value)  # a copy: the array passed to JAX must not change
        except (jax.errors.TracerArrayConversionError, ValueError, TypeError):
            return jnp.asarray(value)
        if plain.dtype.kind == "O" and all(isinstance(entry, numbers.Real) for entry in plain.flat):
            plain = plain.astype(np.float64)  # such as a whole number beyond 64 bits
        if plain.dtype.kind in "iub":
            return _constant(plain.astype(np.float64))
        if plain.dtype.kind == "f":
            return _constant(plain)
    return jnp.asarray(value)


def _constant(array: np.ndarray) -> Array:
    """Return a NumPy array as a JAX array whose values are known even inside jit."""
    with jax.ensure_compile_time_eval():
        return from_numpy(array)


def parameter(name: str, value: Any, ndim: int | tuple[int, ...]) -> Array | Callable | None:
    """Return a model parameter: None, an array, or a function of time (left as it is)."""
    if value is None or callable(value):
        return value
    return as_float(name, value, ndim)


def shape_of(name: str, value: Array | Callable) -> tuple[int, ...]:
    """Return the shape of a model parameter, or of its value at time 0 if it is a function of time."""
    if not callable(value):
        return value.shape
    try:
        return jax.eval_shape(lambda t: jnp.asarray(value(t), float), jnp.zeros(())).shape
    except jax.errors.JAXTypeError as error:
        raise ValueError(f"{name}(t) must use jax.numpy: numpy, math and `if` do not work on the time t") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}(t) must be a number or an array for every time t: {error}") from error


def number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a finite float in [low, high]."""
    try:
        found = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if math.isnan(found) or not (math.isfinite(low) or math.isfinite(found)):
        raise ValueError(f"{name} must be a finite number, got {shown(value)}")
    if not low <= found <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {shown(value)}")
    return found


def reals(**values: Any) -> list[np.ndarray]:
    """Return the values as float64 arrays, broadcast to one shape; they may be infinite or NaN."""
    arrays = []
    for name, value in values.items():
        try:
            arrays.append(np.asarray(value, float))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number or an array of numbers, got {shown(value)}") from None
    try:
        return list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"{', '.join(values)} must have shapes that broadcast, got {shapes}") from None


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool, or raise if it is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value`, or raise if it is not one of the allowed strings."""
    allowed = tuple(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    return value


def as_path(name: str, value: Any) -> Path:
    """Return `value` as a path."""
    try:
        path = Path(value)
        path.exists()
    except (TypeError, ValueError, OSError):  # not a path, or one that no file can have
        raise ValueError(f"{name} must be the path of a file or a folder, got {shown(value)}") from None
    return path


def items(name: str, value: Any, what: str) -> tuple[Any, ...]:
    """Return the items of a list."""
    try:
        return tuple(value)
    except TypeError:
        raise ValueError(f"{name} must be a list of {what}, got {type(value).__name__}") from None


def positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """Return `value` as a finite float that is > 0 (or >= 0)."""
    bound = ">= 0" if or_zero else "> 0"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a number {bound}, got {shown(value)}") from error
    if not math.isfinite(number) or number < 0 or (number == 0 and not or_zero):
        raise ValueError(f"{name} must be finite and {bound}, got {shown(value)}")
    return number


def positive_number(name: str, value: Any, *, or_zero: bool = False) -> Array:
    """Return `value` as a float64 scalar that is finite and > 0 (or >= 0); not checked inside jit, vmap or grad."""
    if not is_concrete(value):
        return as_float(name, value, 0).astype(jnp.float64)
    return _constant(np.array(positive(name, value, or_zero=or_zero)))


def count(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """Return `value` as an integer of at least `least` and at most `most`."""
    plain = isinstance(value, (numbers.Number, np.ndarray, jax.Array)) and not isinstance(value, (bool, np.bool_))
    try:
        number = int(value) if plain and getattr(value, "ndim", 0) == 0 else least - 1
    except (TypeError, ValueError, OverflowError):
        number = least - 1
    if number > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}")
    if number < least or number != value:
        raise ValueError(f"{name} must be a whole number >= {least}, got {shown(value)}")
    return number


def generator(seed: Any) -> np.random.Generator:
    """Return the random number generator for a seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(f"seed must be a whole number >= 0, got {shown(seed)}") from None
