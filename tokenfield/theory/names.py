"""Kernels and norms by name: theory takes "softmax" as well as `Softmax(...)`, "post" as well as `PostLN()`."""

from typing import Any

from .._check import positive
from .._kinds import call, found, our_kinds
from .._shown import nearest, shown
from ..attention import AbstractAttention, Softmax, Unnormalized
from ..normalization import AbstractSphereNorm

MOST_DIMENSION = 10**9  # beyond it the differences between modes are lost in rounding
KERNELS = {kernel.kind: kernel for kernel in (Softmax, Unnormalized)}
"""The two kernels whose mean field has closed rates: softmax (the SA flow) and unnormalized (the USA flow)."""


def kernel_name(attention: str | AbstractAttention | type) -> str:
    """ "softmax" or "unnormalized", from a name in any capitals, an attention or its class."""
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
    """Return the rule of that name, with its parameter; a rule itself is given back."""
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
            f"norm must be one of {our_kinds(AbstractSphereNorm)} or such a rule, got {shown(norm)}{nearest(name, known)}"
        )
    return call(f"norm {name}", known[name], {key: positive(key, value) for key, value in given.items()})
