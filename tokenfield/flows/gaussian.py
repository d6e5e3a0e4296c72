"""The flow of a Gaussian under a Transformer without a norm: its mean and covariance (FORMULAS §5).

`X' = Gamma(X)` is affine, so `X = alpha + L xi` with `alpha' = V(c + B alpha)` and `L' = V B L` stays Gaussian with
covariance `L L^T`, which is symmetric and positive for any step size: nothing has to be clipped. L is unique up to a
rotation, so `L' = V B L + L Omega` with any skew Omega is equivalent. Omega is chosen such that L is constant when the
covariance is; otherwise L would rotate forever under a non-symmetric A.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import AbstractAttention, AbstractHead, Softmax, heads_and_outputs
from ..attention.parameters import Bilinear
from ..noise import AbstractNoise, EuclideanNoise
from ..normalization import NoNorm
from ..states import Gaussian
from ..transformer import Transformer
from .affine import attend, is_affine
from .base import AbstractFlow, Limits, Segment, largest_ratio, obstacle, require_closed, rules_in_time, segments
from .matrices import root, shortest


class Root(NamedTuple):
    """The mean, and a factor L of the covariance `L L^T`."""

    mean: Float[Array, " d"]
    L: Float[Array, "d d"]


class GaussianFlow(AbstractFlow):
    """`alpha' = V(c + B alpha)`, `L' = V B L + L Omega`."""

    model: Transformer

    def pack(self, state):
        return Root(state.mean, root(state.cov))

    def unpack(self, y):
        return Gaussian(y.mean, symmetric(y.L @ y.L.T))

    def velocity(self, t, y):
        at_mean, on_root = attend(self.model.attention, t, y.mean, y.L)
        return Root(at_mean, without_rotation(self.model.attention, t, y.L, on_root))

    def retract(self, y):
        return y

    def relative_size(self, change, y0, y1, rtol, atol):
        return jnp.maximum(
            largest_ratio(change.mean, y0.mean, y1.mean, rtol, atol), ratio(change.L, y0.L, y1.L, rtol, atol)
        )

    @property
    def limits(self):
        return Limits()

    @property
    def log_time_unit(self):
        return jnp.zeros(())


class Moments(NamedTuple):
    """The mean and the covariance."""

    mean: Float[Array, " d"]
    cov: Float[Array, "d d"]


class NoisyGaussianFlow(AbstractFlow):
    """`alpha' = V(c + B alpha)`, `Sigma' = V B Sigma + (V B Sigma)^T + (2/kappa) I`.

    With noise, the factor of a singular Sigma would move at infinite speed, so Sigma itself is the unknown. Noise also keeps
    it positive.
    """

    model: Transformer
    noise: AbstractNoise

    def pack(self, state):
        return Moments(state.mean, symmetric(state.cov))

    def unpack(self, y):
        return Gaussian(y.mean, y.cov)

    def velocity(self, t, y):
        L = root(y.cov)
        at_mean, on_root = attend(self.model.attention, t, y.mean, L)
        return Moments(at_mean, 2 * symmetric(on_root @ L.T) + 2 / self.noise.kappa * jnp.eye(y.mean.size))

    def retract(self, y):
        return Moments(y.mean, symmetric(y.cov))

    def relative_size(self, change, y0, y1, rtol, atol):
        return jnp.maximum(
            largest_ratio(change.mean, y0.mean, y1.mean, rtol, atol), ratio(change.cov, y0.cov, y1.cov, rtol, atol)
        )

    @property
    def limits(self):
        return Limits()

    @property
    def log_time_unit(self):
        return jnp.zeros(())


def symmetric(S: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return `(S + S^T)/2`."""
    return (S + S.T) / 2


def without_rotation(attention: AbstractAttention, t: Array, L: Float[Array, "d d"], X: Float[Array, "d d"]) -> Array:
    """Return `X + L Omega` for `X = V B L`, without the rotation of L that does not change `L L^T`.

    For softmax with V = v I it is `v L (G + G^T)/2`, `G = L^T A L`: no decomposition is needed.
    """
    heads = heads_and_outputs(attention)
    if not all(isinstance(head, Softmax) and head.value.isotropic and W.isotropic for head, W in heads):
        return shortest(L, X)
    one = jnp.ones((1, 1))
    number = lambda head, W: W(t, head.value(t, one))[0, 0]  # noqa: E731
    A = jnp.stack([number(head, W) * head.score.matrix(t, len(L)) for head, W in heads]).sum(0)  # type: ignore[attr-defined]
    return L @ symmetric(L.T @ A @ L)


def ratio(error: Array, y0: Array, y1: Array, rtol, atol) -> Float[Array, ""]:
    """Return `|error| / (atol + rtol |y|)` in the Frobenius norm, which is invariant under rotations of the axes."""
    return largest_ratio(error.reshape(-1), y0.reshape(-1), y1.reshape(-1), rtol, atol)


@segments.register(Gaussian)
def _(state: Gaussian, model: Transformer) -> tuple[Segment, ...]:
    require_closed(state, model)
    model.check(state.d)
    if isinstance(model.attention, AbstractHead):
        shape = model.attention.value.shape()
        if shape[:1] not in ((), (state.d,)):
            raise ValueError(f"V must map R^{state.d} to itself, got shape {shape}")
    flow = GaussianFlow(model) if model.noise is None else NoisyGaussianFlow(model, model.noise)
    return tuple(Segment(end, flow) for end, _ in rules_in_time(model))


@obstacle(Gaussian)
def _(model: Transformer) -> str | None:
    if not isinstance(model.norm, NoNorm):
        return f"under {type(model.norm).__name__} a Gaussian does not stay Gaussian (use NoNorm())"
    if model.fisher_rao is not None:
        return "fisher_rao changes the weights of tokens"
    if model.mlp is not None:
        return "an MLP is not affine, so a Gaussian does not stay Gaussian"
    if not (model.noise is None or isinstance(model.noise, EuclideanNoise)):
        return f"{type(model.noise).__name__} is not noise in R^d (use EuclideanNoise)"
    for head in model.attention.heads:
        if not is_affine(head):
            return f"{type(head).__name__} attention on a Gaussian is not affine (use Softmax, L2, Sinkhorn or Linear)"
        if head.uses_positions:
            return "a causal mask or rules for positions need an order of the tokens, which a Gaussian does not have"
        if isinstance(head.score, Bilinear) and head.score.biases:
            return "biases of queries and keys are not implemented for Gaussians"
    if model.attention.bias is not None or model.attention.offsets is not None:
        return "a bias of the attention is not implemented for Gaussians"
    return None
