"""The names of kernels and norms, as configs spell them."""

from ..config.build import KERNELS, NORMS


def kernel_names() -> list[str]:
    """Return the kinds of attention."""
    return [*KERNELS, "multihead"]


def norm_names() -> list[str]:
    """Return the kinds of norms."""
    return list(NORMS)


def kernel_name(name: str) -> str | None:
    """Return the kind of a class of attention."""
    return {each: kind for kind, each in KERNELS.items()}.get(name)


def norm_name(name: str) -> str | None:
    """Return the kind of a class of norms."""
    return {each: kind for kind, each in NORMS.items()}.get(name)
