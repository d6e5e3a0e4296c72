"""Names of kernels and norms, as spelled in configs."""

import contextlib
from functools import cache

from .._kinds import found, is_ours
from ..attention import AbstractAttention
from ..normalization import AbstractNorm


def kernel_names() -> list[tuple[str, str]]:
    """Return the kinds of attention that need no more than beta, each with its title."""
    return _choices(AbstractAttention, " attention")


def norm_names() -> list[tuple[str, str]]:
    """Return the kinds of norms that need no parameters, each with its title."""
    return _choices(AbstractNorm, "")


def kernel_name(name: str) -> str | None:
    """Return the kind of a class of attention."""
    return _kinds(AbstractAttention).get(name)


def norm_name(name: str) -> str | None:
    """Return the kind of a class of norms."""
    return _kinds(AbstractNorm).get(name)


@cache
def _choices(family: type, less: str) -> list[tuple[str, str]]:
    """Return the kinds of our own classes that can be made without parameters, and their titles without the ending `less`."""
    choices = []
    for kind, each in found(family).items():
        if not is_ours(each):
            continue
        with contextlib.suppress(TypeError, ValueError):
            each.maker()()
            choices.append((kind, each.title.removesuffix(less)))
    return choices


def _kinds(family: type) -> dict[str, str]:
    """Return the kinds of our own classes by the names of the classes."""
    return {each.__name__: kind for kind, each in found(family).items() if is_ours(each)}
