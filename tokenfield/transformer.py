"""A model: what moves the measure."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._check import items, number, positive_number
from ._shown import shown
from ._types import Number
from .attention import AbstractAttention, Measure
from .attention.measure import AtomicMeasure
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
        context: another measure nu, e.g. `Tokens`, for cross-attention: queries come from the tokens, keys and values from nu
            (FORMULAS §13). Without `cross`, the tokens attend to the context only.
        cross: an attention to the context, a sublayer after `attention`, by which the tokens attend to themselves. A decoder is
            `Transformer(Softmax(..., causal=True), norm, mlp, cross=Softmax(...), context=nu)`.
        encoder: the Transformer that moves the context while the tokens move; they read it as the encoder's own sublayers do.
            None leaves the context as it is.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
        >>> tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN(), context=tkf.uniform_sphere(64, 3, seed=1))
    """

    attention: AbstractAttention
    norm: AbstractNorm
    mlp: MLP | None
    noise: AbstractNoise | None
    fisher_rao: Array | None
    breakpoints: tuple[float, ...] = eqx.field(static=True)
    context: AtomicMeasure | None
    cross: AbstractAttention | None
    encoder: "Transformer | None"

    def __init__(
        self,
        attention: AbstractAttention,
        norm: AbstractNorm | None = None,
        mlp: MLP | None = None,
        breakpoints: Sequence[float] = (),
        noise: AbstractNoise | None = None,
        fisher_rao: Number | None = None,
        context: AtomicMeasure | None = None,
        cross: AbstractAttention | None = None,
        encoder: "Transformer | None" = None,
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
        if not (context is None or isinstance(context, AtomicMeasure)):
            raise ValueError(f"context must be a measure such as Tokens(x), got {shown(context)}")
        if not (cross is None or isinstance(cross, AbstractAttention)):
            raise ValueError(f"cross must be an attention such as Softmax(beta=1.0) or None, got {shown(cross)}")
        if not (encoder is None or isinstance(encoder, Transformer)):
            raise ValueError(f"encoder must be a Transformer or None, got {shown(encoder)}")
        if context is None and not (cross is None and encoder is None):
            raise ValueError(
                f"{'encoder' if cross is None else 'cross'} needs a context: the measure that is attended to"
            )
        breakpoints = [number("each of breakpoints", time) for time in items("breakpoints", breakpoints, "times")]
        self.attention = attention
        self.norm = norm
        self.mlp = mlp
        self.noise = noise
        self.fisher_rao = None if fisher_rao is None else positive_number("fisher_rao", fisher_rao, or_zero=True)
        self.breakpoints = tuple(sorted(breakpoints))
        self.context = context
        self.cross = cross
        self.encoder = encoder

    @property
    def isotropic(self) -> bool:
        """True when the flow commutes with rotations (and so stays in the span of the tokens)."""
        plain = self.mlp is None and self.noise is None and self.context is None
        return plain and self.attention.isotropic and self.norm.isotropic

    def sublayers(
        self, t: Float[Array, ""], w: Float[Array, " n"], positions: Float[Array, " n"], unit: bool = False
    ) -> tuple[Callable[[Float[Array, "n d"]], Float[Array, "n d"]], ...]:
        """The functions of the tokens read that drive them at time t: attention, cross-attention, the MLP."""
        attention = lambda x: self.attention.of_itself(t, Measure(x, w, positions), unit)  # noqa: E731
        nu, cross = self.context, self.cross
        if nu is not None and cross is None:
            attention = lambda x: self.attention(t, x, nu, positions)  # noqa: E731
        found: list[Callable] = [attention]
        if nu is not None and cross is not None:
            relative = jnp.exp(cross.log_unit - self.attention.log_unit)
            found.append(lambda x: relative * cross(t, x, nu, positions))
        if self.mlp is not None:
            scale = jnp.exp(-self.attention.log_unit)
            found.append(lambda x: scale * self.mlp(x))  # type: ignore[misc]
        return tuple(found)

    def check(self, d: int) -> None:
        """Raise a ValueError if any part does not fit tokens in R^d."""
        for part in (self.attention, self.norm, self.mlp, self.noise, self.cross):
            if part is not None:
                part.check(d)
        if self.context is not None and self.context.x.shape[1] != d:
            raise ValueError(f"context must hold tokens in R^{d}, like the state, got R^{self.context.x.shape[1]}")


def only_transformer(model: Any) -> Transformer:
    """The model, if it is one."""
    if isinstance(model, Transformer):
        return model
    hint = ": wrap it, Transformer(attention, norm)" if isinstance(model, AbstractAttention) else ""
    raise ValueError(f"model must be a Transformer, got {type(model).__name__}{hint}")
