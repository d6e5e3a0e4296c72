"""Names of kernels and norms, as spelled in configs."""

from .._kinds import found, is_ours
from ..attention import AbstractAttention
from ..normalization import AbstractNorm


def kernel_names() -> list[str]:
    """Return the kinds of attention."""
    return list(_kinds(AbstractAttention).values())


def norm_names() -> list[str]:
    """Return the kinds of norms."""
    return list(_kinds(AbstractNorm).values())


def kernel_name(name: str) -> str | None:
    """Return the kind of a class of attention."""
    return _kinds(AbstractAttention).get(name)


def norm_name(name: str) -> str | None:
    """Return the kind of a class of norms."""
    return _kinds(AbstractNorm).get(name)


def _kinds(family: type) -> dict[str, str]:
    """Return the kinds of our own classes by the names of the classes."""
    return {each.__name__: kind for kind, each in found(family).items() if is_ours(each)}
