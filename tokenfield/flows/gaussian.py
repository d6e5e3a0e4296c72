"""How a Transformer without a norm moves a Gaussian: its mean and its covariance (FORMULAS §5).

`X' = Gamma(X)` is affine, so `X = alpha + L xi` with `alpha' = V(c + B alpha)` and `L' = V B L` stays Gaussian with
covariance `L L^T`, which is symmetric and positive whatever the step: nothing has to be clipped.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import AbstractHead
from ..noise import AbstractNoise, EuclideanNoise
from ..normalization import NoNorm
from ..states import Gaussian
from ..transformer import Transformer
from .affine import attend, is_affine
from .base import AbstractFlow, Segment, largest_ratio, obstacle, require_closed, rules_in_time, segments


class Root(NamedTuple):
    """The mean, and a factor L of the covariance `L L^T`."""

    mean: Float[Array, " d"]
    L: Float[Array, "d d"]


class GaussianFlow(AbstractFlow):
    """`alpha' = V(c + B alpha)`, `L' = V B L`."""

    model: Transformer

    def pack(self, state):
        return Root(state.mean, root(state.cov))

    def unpack(self, y):
        return Gaussian(y.mean, symmetric(y.L @ y.L.T))

    def velocity(self, t, y):
        return Root(*attend(self.model.attention, t, y.mean, y.L))

    def retract(self, y):
        return y

    def error_size(self, error, y0, y1, rtol, atol):
        return jnp.maximum(
            largest_ratio(error.mean, y0.mean, y1.mean, rtol, atol), ratio(error.L, y0.L, y1.L, rtol, atol)
        )

    @property
    def log_time_unit(self):
        return jnp.zeros(())


class Moments(NamedTuple):
    """The mean and the covariance."""

    mean: Float[Array, " d"]
    cov: Float[Array, "d d"]


class NoisyGaussianFlow(AbstractFlow):
    """`alpha' = V(c + B alpha)`, `Sigma' = V B Sigma + (V B Sigma)^T + (2/kappa) I`.

    Noise moves a factor of a singular Sigma at infinite speed, so Sigma itself is the unknown; noise also keeps it
    positive.
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

    def error_size(self, error, y0, y1, rtol, atol):
        return jnp.maximum(
            largest_ratio(error.mean, y0.mean, y1.mean, rtol, atol), ratio(error.cov, y0.cov, y1.cov, rtol, atol)
        )

    @property
    def log_time_unit(self):
        return jnp.zeros(())


def symmetric(S: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """`(S + S^T)/2`."""
    return (S + S.T) / 2


def root(S: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """A factor L of `S = L L^T`. Eigenvalues that rounding has made negative count as 0."""
    eigenvalues, vectors = jnp.linalg.eigh(symmetric(S))
    return vectors * jnp.sqrt(jnp.maximum(eigenvalues, 0))


def ratio(error: Array, y0: Array, y1: Array, rtol, atol) -> Float[Array, ""]:
    """`|error| / (atol + rtol |y|)` in the Frobenius norm, as a whole: entries of a matrix turn with the axes."""
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
        return f"{type(model.norm).__name__} bends the space, and a Gaussian does not stay Gaussian (use NoNorm())"
    if model.fisher_rao is not None:
        return "fisher_rao moves the weights of tokens"
    if model.mlp is not None:
        return "an MLP is not affine, and a Gaussian does not stay Gaussian"
    if not (model.noise is None or isinstance(model.noise, EuclideanNoise)):
        return f"{type(model.noise).__name__} is not noise of R^d (use EuclideanNoise)"
    for head in model.attention.heads:
        if not is_affine(head):
            return f"{type(head).__name__} attention of a Gaussian is not affine (Softmax, L2, Sinkhorn, Linear are)"
        if head.causal:
            return "a causal mask orders tokens, and a Gaussian has no order"
    return None
