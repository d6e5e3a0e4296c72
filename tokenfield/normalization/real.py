"""The norms of real models: a map of each token, before a sublayer (`PreNorm`) or after its sum with the token (`PostNorm`)."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import as_float, positive_number
from .._kinds import Named
from .._types import Number, Vector
from ..spaces import Euclidean
from .base import AbstractNorm, forever


class AbstractTokenMap(Named, eqx.Module):
    """A map applied to each token."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Return the tokens after the map."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Raise ValueError unless the map's parameters fit tokens in R^d."""


class LayerNorm(AbstractTokenMap):
    """`x -> g ⊙ (x - mean) / sqrt(var + eps) + b`, mean and variance over the coordinates of a token (Ba et al. 2016).

    Args:
        gain: a number or (d,) numbers g.
        bias: a number or (d,) numbers b.
        eps: added to the variance.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.PreNorm(tkf.LayerNorm(gain=[1.0, 2.0, 1.0], bias=[0.0, 0.1, 0.0], eps=1e-5))
        PreNorm(LayerNorm(gain=[1.0, 2.0, 1.0], bias=[0.0, 0.1, 0.0]))
    """

    gain: Array | None
    bias: Array | None
    eps: Array
    kind: ClassVar[str] = "layer_norm"
    title: ClassVar[str] = "LayerNorm"

    def __init__(self, gain: Number | Vector | None = None, bias: Number | Vector | None = None, eps: Number = 1e-5):
        self.gain = None if gain is None else as_float("gain", gain, (0, 1))
        self.bias = None if bias is None else as_float("bias", bias, (0, 1))
        self.eps = positive_number("eps", eps, or_zero=True)

    def __call__(self, x):
        centered = x - x.mean(-1, keepdims=True)
        y = centered / jnp.sqrt((centered * centered).mean(-1, keepdims=True) + self.eps.astype(x.dtype))
        y = y if self.gain is None else self.gain.astype(x.dtype) * y
        return y if self.bias is None else y + self.bias.astype(x.dtype)

    def check(self, d):
        _check_lengths(d, gain=self.gain, bias=self.bias)


class RMSNorm(AbstractTokenMap):
    """`x -> g ⊙ x / sqrt(|x|^2/d + eps)` (Zhang, Sennrich 2019).

    Args:
        gain: a number or (d,) numbers g.
        eps: added to the mean square.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.PreNorm(tkf.RMSNorm(gain=1.0, eps=1e-6))
        PreNorm(RMSNorm(gain=1.0))
    """

    gain: Array | None
    eps: Array
    kind: ClassVar[str] = "rms_norm"
    title: ClassVar[str] = "RMSNorm"

    def __init__(self, gain: Number | Vector | None = None, eps: Number = 1e-6):
        self.gain = None if gain is None else as_float("gain", gain, (0, 1))
        self.eps = positive_number("eps", eps, or_zero=True)

    def __call__(self, x):
        y = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + self.eps.astype(x.dtype))
        return y if self.gain is None else self.gain.astype(x.dtype) * y

    def check(self, d):
        _check_lengths(d, gain=self.gain)


class PreNorm(AbstractNorm):
    """`x <- x + h A(N(x))`, N any map of tokens: the layer of GPT-2 (`LayerNorm`) and Llama (`RMSNorm`).

    `PreLN` is its idealization in terms of directions and lengths, which the theory uses.

    Args:
        map: the map N, such as `LayerNorm` or `RMSNorm`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PreNorm(tkf.RMSNorm()))
        Transformer(Softmax(beta=1.0), norm=PreNorm(RMSNorm()))
    """

    map: AbstractTokenMap
    kind: ClassVar[str] = "pre_norm"
    title: ClassVar[str] = "pre-norm"

    def layer(self, t, x, sublayer, h):
        return x + h * sublayer(self.map(x))

    def inputs(self, t, x):
        return self.map(x)

    @property
    def space(self):
        return Euclidean()

    @property
    def isotropic(self):
        return False

    def segments(self):
        return forever(self)

    def check(self, d):
        self.map.check(d)


class PostNorm(AbstractNorm):
    """`x <- N(x + h A(x))`, N any map of tokens: the layer of BERT. `PostLN` is its idealization on the sphere.

    It has layers, but no flow: with h = 0 the layer is not the identity.

    Args:
        map: the map N, such as `LayerNorm` or `RMSNorm`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostNorm(tkf.LayerNorm()))
        Transformer(Softmax(beta=1.0), norm=PostNorm(LayerNorm()))
    """

    map: AbstractTokenMap
    kind: ClassVar[str] = "post_norm"
    title: ClassVar[str] = "post-norm"

    def layer(self, t, x, sublayer, h):
        return self.map(x + h * sublayer(x))

    def inputs(self, t, x):
        return x

    @property
    def space(self):
        return Euclidean()

    @property
    def isotropic(self):
        return False

    def segments(self):
        return forever(self)

    def check(self, d):
        self.map.check(d)


def _check_lengths(d: int, **parts: Array | None) -> None:
    for name, part in parts.items():
        if part is not None and part.ndim == 1 and part.shape[0] != d:
            raise ValueError(f"{name} must have length {d} for tokens in R^{d}, got {part.shape[0]}")
