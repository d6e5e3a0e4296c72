"""Several heads at once."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._check import as_float, items
from .._shown import shown
from .._types import Vector
from .base import AbstractAttention, AbstractHead
from .parameters import ValueMap


class MultiHead(AbstractAttention):
    """`Gamma = sum_h W_h (Gamma^{(h)} + v_h) + b` over heads of any kind (FORMULAS §1).

    In the usual form, one output matrix is applied to the concatenated heads; the W_h are its blocks of columns.

    Args:
        heads: the heads; head h maps R^d to R^{d_h} through its own V.
        outputs: output maps W_h of shape (d, d_h), numbers or None (the identity); one for each head.
        bias: (d,) a vector b added to the output of every token; 0 by default.
        offsets: (heads, d_h) vectors v_h, for heads of equal width: the biases of values, if rows of the kernel sum to 1.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.MultiHead([tkf.Softmax(beta=1.0), tkf.Softmax(beta=9.0)], outputs=[0.5, 0.5])
        MultiHead([Softmax(beta=1.0), Softmax(beta=9.0)], outputs=[0.5, 0.5])
    """

    parts: tuple[AbstractHead, ...]
    outputs: tuple[ValueMap, ...]  # type: ignore[misc]
    bias: Float[Array, " d"] | None  # type: ignore[misc]
    offsets: tuple[Array, ...] | None  # type: ignore[misc]
    kind: ClassVar[str] = "multihead"
    title: ClassVar[str] = "several heads"

    def __init__(
        self,
        heads: Sequence[AbstractHead],
        outputs: Sequence[ArrayLike | None] | None = None,
        bias: Vector | None = None,
        offsets: ArrayLike | None = None,
    ):
        heads = items("heads", heads, "attention heads")
        if not heads or not all(isinstance(head, AbstractHead) for head in heads):
            raise ValueError(f"heads must be a non-empty list of attention heads, got {shown(heads)}")
        outputs = (
            (None,) * len(heads) if outputs is None else items("outputs", outputs, "output maps, one for each head")
        )
        if len(outputs) != len(heads):
            raise ValueError(f"outputs must have one entry for each of the {len(heads)} heads, got {len(outputs)}")
        self.parts = heads
        self.outputs = tuple(ValueMap(W) for W in outputs)
        self.bias = None if bias is None else as_float("bias", bias, 1)
        self.offsets = None if offsets is None else tuple(as_float("offsets", offsets, 2))
        if self.offsets is not None and len(self.offsets) != len(heads):
            raise ValueError(f"offsets must have one row for each of the {len(heads)} heads, got {len(self.offsets)}")

    def __call__(self, t, x, mu, positions=None):
        return self._sum(t, x, lambda head: head(t, x, mu, positions))

    def of_itself(self, t, mu, unit=False):
        return self._sum(t, mu.x, lambda head: head.of_itself(t, mu, unit))

    def _sum(self, t: Float[Array, ""], like: Array, gamma: Callable[[AbstractHead], Array]) -> Float[Array, "m d"]:
        unit_exponent = self.log_unit
        out = jnp.zeros_like(like)
        offsets = (None,) * len(self.parts) if self.offsets is None else self.offsets
        for head, W, offset in zip(self.parts, self.outputs, offsets, strict=True):
            scale = jnp.exp(head.log_unit - unit_exponent).astype(like.dtype)
            own = gamma(head)
            if offset is not None:
                own += jnp.exp(-head.log_unit).astype(like.dtype) * offset.astype(like.dtype)
            out += scale * W(t, own)
        return out if self.bias is None else out + jnp.exp(-unit_exponent).astype(like.dtype) * self.bias

    @property
    def heads(self):
        return self.parts

    @property
    def isotropic(self):
        parts = all(part.isotropic for part in self.parts) and all(W.isotropic for W in self.outputs)
        return parts and self.bias is None and self.offsets is None

    @property
    def log_unit(self):
        return jnp.stack([head.log_unit for head in self.parts]).max()

    def check(self, d):
        if self.bias is not None and self.bias.shape != (d,):
            raise ValueError(f"bias must have length {d} for tokens in R^{d}, got {self.bias.shape[0]}")
        for index, (head, W) in enumerate(zip(self.parts, self.outputs, strict=True)):
            head.check(d)
            width = (*head.value.shape(), d)[0]
            if self.offsets is not None and self.offsets[index].shape != (width,):
                raise ValueError(
                    f"offsets must have {width} columns, as head {index} has values, got {self.offsets[index].shape[0]}"
                )
            given = W.shape(f"outputs[{index}]") or width
            if given not in (d, (d, width)):
                raise ValueError(
                    f"outputs[{index}] must have shape ({d}, {width}) to map head {index} back to R^{d}, got {given}"
                )


def heads_and_outputs(attention: AbstractAttention) -> tuple[tuple[AbstractHead, ValueMap], ...]:
    """Return the pairs `(head, W)` of any attention; a single head has W = I."""
    return tuple(zip(attention.heads, attention.outputs, strict=True))
