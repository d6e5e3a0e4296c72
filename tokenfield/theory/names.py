"""Kernels and norms by name: theory functions accept "softmax" or `Softmax(...)`, "post" or `PostLN()`."""

from typing import Any

from .._check import positive
from .._kinds import call, found, our_kinds
from .._shown import nearest, shown
from ..attention import AbstractAttention, Softmax, Unnormalized
from ..normalization import AbstractSphereNorm

MOST_DIMENSION = 10**9  # above it the differences between modes are lost to rounding
KERNELS = {kernel.kind: kernel for kernel in (Softmax, Unnormalized)}
"""The two kernels whose mean field has closed rates: softmax (the SA flow) and unnormalized (the USA flow)."""


def kernel_name(attention: str | AbstractAttention | type) -> str:
    """Return "softmax" or "unnormalized" for a name (in any case), an attention or its class."""
    kind = type(attention) if isinstance(attention, AbstractAttention) else attention
    if isinstance(kind, type):
        name: Any = next((name for name, kernel in KERNELS.items() if kind is kernel), None)
        given = kind.__name__
    else:
        name, given = kind.lower() if isinstance(kind, str) else kind, shown(attention)
    if not isinstance(name, str) or name not in KERNELS:
        raise ValueError(f'attention must be "softmax" or "unnormalized", got {given}{nearest(given.lower(), KERNELS)}')
    return name


def norm_rule(
    norm: str | AbstractSphereNorm, alpha: float | None = None, tau: float | None = None
) -> AbstractSphereNorm:
    """Return the rule with a name and its parameter; a rule is returned unchanged."""
    given = {name: value for name, value in (("alpha", alpha), ("tau", tau)) if value is not None}
    if isinstance(norm, AbstractSphereNorm):
        if given:
            raise ValueError(
                f"{next(iter(given))} belongs to the norm itself when norm is an object, got {shown(norm)}"
            )
        return norm
    known = found(AbstractSphereNorm)
    name = norm.lower() if isinstance(norm, str) else norm
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"norm must be one of {our_kinds(AbstractSphereNorm)} or a rule such as PostLN(), got {shown(norm)}"
            f"{nearest(name, known)}"
        )
    return call(f"norm {name}", known[name], {key: positive(key, value) for key, value in given.items()})
