"""A model: what moves the measure."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._check import items, number, positive_number
from ._shown import shown
from ._types import Number
from .attention import AbstractAttention
from .mlp import MLP
from .noise import AbstractNoise
from .normalization import AbstractNorm, NoNorm


class Transformer(eqx.Module):
    """A Transformer: an attention, a normalization rule and, optionally, an MLP and noise.

    Args:
        attention: any attention, e.g. `Softmax(beta=9.0)` or `MultiHead([...])`.
        norm: the normalization rule; none by default (the free flow in R^d).
        mlp: a token-wise MLP, added to the attention in the flow, a second sublayer in `layers`.
        noise: random pushes of every token, `SphereNoise(kappa=4.0)` under Post-LN, `EuclideanNoise(kappa=4.0)` without a
            norm. Runs of tokens then need a seed.
        fisher_rao: the rate c at which the weights of tokens grow, `m_i' = c m_i (phi_i - sum_j m_j phi_j)` with
            `phi_i = (1/beta) sum_j m_j e^{beta<x_i,x_j>}`: the Wasserstein–Fisher–Rao flow (unnormalized attention, Post-LN).
            None leaves weights as they are.
        breakpoints: times at which A(t), V(t), … jump. The integrator stops and restarts there.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
    """

    attention: AbstractAttention
    norm: AbstractNorm
    mlp: MLP | None
    noise: AbstractNoise | None
    fisher_rao: Array | None
    breakpoints: tuple[float, ...] = eqx.field(static=True)

    def __init__(
        self,
        attention: AbstractAttention,
        norm: AbstractNorm | None = None,
        mlp: MLP | None = None,
        breakpoints: Sequence[float] = (),
        noise: AbstractNoise | None = None,
        fisher_rao: Number | None = None,
    ):
        if not isinstance(attention, AbstractAttention):
            raise ValueError(f"attention must be an attention such as Softmax(beta=1.0), got {shown(attention)}")
        norm = NoNorm() if norm is None else norm
        if not isinstance(norm, AbstractNorm):
            raise ValueError(f"norm must be a normalization rule such as PostLN(), got {shown(norm)}")
        if not (mlp is None or isinstance(mlp, MLP)):
            raise ValueError(f"mlp must be an MLP or None, got {shown(mlp)}")
        if not (noise is None or isinstance(noise, AbstractNoise)):
            raise ValueError(f"noise must be a noise such as EuclideanNoise(kappa=4.0) or None, got {shown(noise)}")
        breakpoints = [number("each of breakpoints", time) for time in items("breakpoints", breakpoints, "times")]
        self.attention = attention
        self.norm = norm
        self.mlp = mlp
        self.noise = noise
        self.fisher_rao = None if fisher_rao is None else positive_number("fisher_rao", fisher_rao, or_zero=True)
        self.breakpoints = tuple(sorted(breakpoints))

    @property
    def isotropic(self) -> bool:
        """True when the flow commutes with rotations (and so stays in the span of the tokens)."""
        plain = self.mlp is None and self.noise is None
        return plain and self.attention.isotropic and self.norm.isotropic

    def sublayers(
        self, t: Float[Array, ""], w: Float[Array, " n"], positions: Float[Array, " n"], unit: bool = False
    ) -> tuple[Callable[[Float[Array, "n d"]], Float[Array, "n d"]], ...]:
        """The functions of the tokens read that drive them at time t: attention, then the MLP if there is one."""
        attention = lambda x: self.attention(t, x, w, positions, unit)  # noqa: E731
        if self.mlp is None:
            return (attention,)
        scale = jnp.exp(-self.attention.log_unit)
        return attention, lambda x: scale * self.mlp(x)

    def check(self, d: int) -> None:
        """Raise a ValueError if any part does not fit tokens in R^d."""
        for part in (self.attention, self.norm, self.mlp, self.noise):
            if part is not None:
                part.check(d)


def only_transformer(model: Any) -> Transformer:
    """The model, if it is one."""
    if isinstance(model, Transformer):
        return model
    hint = ": wrap it, Transformer(attention, norm)" if isinstance(model, AbstractAttention) else ""
    raise ValueError(f"model must be a Transformer, got {type(model).__name__}{hint}")
