"""The names of kernels and norms, as configs spell them."""

from ..config.build import KERNELS, NORMS


def kernel_names() -> list[str]:
    """Return the kinds of attention."""
    return [*KERNELS, "multihead"]


def norm_names() -> list[str]:
    """Return the kinds of norms."""
    return list(NORMS)
