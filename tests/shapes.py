"""Enforce the shapes and dtypes that annotations promise, while tests run.

`jaxtyping` wraps every function of the packages below, and `beartype` checks its arguments and its result. Only annotations
of arrays are enforced: what else a user hands over is checked by our own code, whose messages have tests of their own, and
what we hand over by mypy.
"""

import functools
import operator
import types
import typing
from typing import Any

import beartype
import jaxtyping
import numpy as np

PACKAGES = (
    "attention normalization noise states flows observables mlp transformer spectral solver driver "
    "spaces stop_rule lipschitz theory clustering studies _xla"
)


def install() -> None:
    """Enforce annotations in the core packages. Call it before they are imported.

    The hook wraps functions that promise nothing too, and functions inside of functions at every call of those: a tenth of the
    time of all tests. These are left as they are.
    """
    wrap = jaxtyping.jaxtyped
    jaxtyping.jaxtyped = lambda **options: lambda part: wrap(**options)(part) if _is_wrapped(part) else part
    jaxtyping.install_import_hook([f"tokenfield.{name}" for name in PACKAGES.split()], "shapes.checked")


def _is_wrapped(part: Any) -> bool:
    """True for classes, and for functions outside of functions that promise the shape of an array."""
    if not isinstance(part, types.FunctionType):
        return True
    return "<locals>" not in part.__qualname__ and any(map(_is_of_arrays, part.__annotations__.values()))


def checked(function: Any) -> Any:
    """Return a function that checks its arrays."""
    hints = function.__annotations__
    function.__annotations__ = {name: _widened(hint) for name, hint in hints.items() if _is_of_arrays(hint)}
    if not function.__annotations__:  # nothing to check: functions inside of functions come here at every call
        return function
    return beartype.beartype(function)


def _widened(hint: Any) -> Any:
    """The same with arrays of NumPy of that shape and dtype allowed, and plain numbers where the shape may be ()."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        numbers = (float, int) if all(dim.startswith("*") for dim in hint.dim_str.split()) else ()
        return typing.Union[(hint, hint.dtype[np.ndarray, hint.dim_str], *numbers)]
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return functools.reduce(operator.or_, map(_widened, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return tuple[tuple(map(_widened, typing.get_args(hint)))]
    return hint


def _is_of_arrays(hint: Any) -> bool:
    """True for an annotation of jaxtyping, such as Float[Array, "n d"], and for unions, tuples and the like that hold one."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_is_of_arrays, typing.get_args(hint)))
