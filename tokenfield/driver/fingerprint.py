"""Fingerprints: a hash of everything that a run computes, the same in every process.

Arrays and settings are hashed by value. Functions (`A(t)`, a stop rule, a user's kernel) are hashed by what they compute:
the run is traced to a jaxpr, and its equations and constants are hashed. Names and memory addresses do not matter.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.extend.random import rbg_prng_impl, threefry_prng_impl, unsafe_rbg_prng_impl

from ..results.provenance import versions

ADDRESS = re.compile(r"(?: at)? 0x[0-9a-fA-F]{4,}")
GENERATORS = {id(each): each.name for each in (threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl)}
NO_RESULT = {"debug_callback", "debug_print"}  # primitives without a result
RULES = {
    "jvp_jaxpr_fun",
    "fwd_jaxpr_thunk",
    "bwd",
    "out_trees",
    "rule",
}  # rules for derivatives and batching: they are traced where they are used


class Program(NamedTuple):
    """A function to trace, with arguments like those of the run. Only the shapes of arrays matter; `name` is for messages."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any]


def fingerprint(*trees: Any, programs: Sequence[Program] = ()) -> str:
    """Return a hash of models, states and settings, and of what the functions in them compute.

    Args:
        trees: pytrees of arrays, numbers and strings. They may hold functions if `programs` call them.
        programs: the parts of the run to trace.

    Returns:
        64 hexadecimal digits. They also depend on the versions of tokenfield, JAX and Diffrax.

    Raises:
        ValueError: if a program calls back into Python, because its jaxpr then does not say what it computes.
    """
    digest = hashlib.sha256(repr(sorted(versions().items())).encode())
    for tree in trees:
        leaves, structure = jax.tree.flatten(tree)
        digest.update(ADDRESS.sub("", str(structure)).encode())
        for leaf in leaves:
            if eqx.is_array_like(leaf):
                _array(digest, leaf)
            elif callable(leaf):
                assert programs, f"{leaf!r} can only be hashed as part of a program"
            else:
                digest.update(f"{type(leaf).__name__} {leaf!r};".encode())
    for program in programs:
        digest.update(program.name.encode())
        jaxpr = eqx.filter_make_jaxpr(program.function)(*program.arguments)[0]
        try:
            _closed(digest, jaxpr)
        except _NotKnown as reason:
            raise ValueError(
                f"checkpoint: the {program.name} of this run cannot be fingerprinted, because it calls Python code "
                f"({reason}): write it in jax.numpy, or set checkpoint=None"
            ) from None
    return digest.hexdigest()


class _NotKnown(Exception):
    """A part of a jaxpr that does not say what it computes."""


def _array(digest: Any, value: Any) -> None:
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise _NotKnown(type(value).__name__)
    digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())


def _closed(digest: Any, closed: ClosedJaxpr) -> None:
    for constant in closed.consts:
        _array(digest, constant)
    _jaxpr(digest, closed.jaxpr)


def _jaxpr(digest: Any, jaxpr: Jaxpr) -> None:
    numbers: dict[Any, int] = {}

    def bind(variables: Sequence[Any]) -> None:
        for variable in variables:
            numbers[variable] = len(numbers)
            digest.update(f"{variable.aval};".encode())

    def use(atoms: Sequence[Any]) -> None:
        for atom in atoms:
            if isinstance(atom, Literal):
                digest.update(f"{atom.aval}".encode())
                _array(digest, atom.val)
            else:
                digest.update(f"%{numbers[atom]};".encode())

    bind([*jaxpr.constvars, *jaxpr.invars])
    for equation in jaxpr.eqns:
        primitive = equation.primitive.name
        if primitive in NO_RESULT:
            continue
        digest.update(f"\n{primitive}".encode())
        for name, value in sorted(equation.params.items()):
            if name != "name" and name not in RULES:
                digest.update(f" {name}=".encode())
                _parameter(digest, value, primitive)
        use(equation.invars)
        bind(equation.outvars)
    digest.update(b"\nreturn ")
    use(jaxpr.outvars)


def _parameter(digest: Any, value: Any, primitive: str) -> None:
    """Hash a parameter of an equation: inner jaxprs and arrays by content, anything else by its repr."""
    if isinstance(value, ClosedJaxpr):
        _closed(digest, value)
    elif isinstance(value, Jaxpr):
        _jaxpr(digest, value)
    elif isinstance(value, (np.ndarray, jax.Array)):
        _array(digest, value)
    elif id(value) in GENERATORS:
        digest.update(GENERATORS[id(value)].encode())
    elif isinstance(value, dict):
        _parameter(digest, sorted(value.items(), key=repr), primitive)
    elif isinstance(value, (set, frozenset)):
        _parameter(digest, sorted(value, key=repr), primitive)
    elif isinstance(value, (tuple, list)):
        digest.update(f"{type(value).__name__}{len(value)}".encode())
        for item in value:
            _parameter(digest, item, primitive)
    else:
        text = repr(value)
        if ADDRESS.search(text):
            raise _NotKnown(primitive)
        digest.update(text.encode() + b";")
