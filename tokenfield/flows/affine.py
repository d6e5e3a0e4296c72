"""Attention of a Gaussian measure is an affine map, `Gamma(x) = V(c + B x)`: what B does, kernel by kernel.

With `Sigma = L L^T` all that a flow needs is `c + B alpha` (the map at the mean alpha) and `B L`. Written with L they
need no inverse and no root of Sigma, so singular Sigma and singular A are no exception (FORMULAS §5).
"""

from functools import singledispatch
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import L2, AbstractAttention, Linear, Sinkhorn, Softmax, heads_and_outputs


class Affine(NamedTuple):
    """`c + B alpha` and `B L`."""

    at_mean: Float[Array, " d"]
    on_root: Float[Array, "d d"]


@singledispatch
def affine(head: Any, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d d"]) -> Affine:
    """The affine map before V of one head on `N(mean, L L^T)`. Registered for each kernel that has one."""
    raise NotImplementedError(type(head).__name__)


@affine.register(Softmax)
def _(head, t, mean, L):
    """`c = alpha`, `B = Sigma A`."""
    A = head.score.matrix(t, mean.size)
    return Affine(mean + L @ (L.T @ (A @ mean)), L @ (L.T @ A @ L))


@affine.register(L2)
def _(head, t, mean, L):
    """`B = (I + Sigma P)^{-1} Sigma A`, `c = (I + Sigma P)^{-1} alpha`, `A = 2 beta K^T Q`, `P = 2 beta K^T K`.

    With `K L = U s W^T` and `b = 2 beta`, `(I + Sigma P)^{-1} L L^T K^T = L W s/(1 + b s^2) U^T`. Forming `L^T P L` instead
    would square the condition of L and lose all digits when Sigma is large and nearly singular.
    """
    identity = jnp.eye(mean.size)
    q, k, _ = head.score.factors(t, identity)  # q^T = 2 beta Q, k^T = K
    b = head.score.sharpness(t, identity)
    U, s, W = jnp.linalg.svd(k.T @ L, full_matrices=False)
    spread = L @ (W.T * (s / (1 + b * s * s))) @ U.T
    return Affine(mean + spread @ ((q.T - b * k.T) @ mean), spread @ (q.T @ L))


@affine.register(Sinkhorn)
def _(head, t, mean, L):
    """`c + B alpha = alpha`, `B L = 2 L M (I + (I + 4 M^T M)^{1/2})^{-1}` with `M = L^T A L = U s W^T`.

    Any factor L of Sigma will do: a rotation of L rotates M, and the function of `M^T M` with it.
    """
    U, s, W = jnp.linalg.svd(L.T @ head.score.matrix(t, mean.size) @ L)
    return Affine(mean, L @ (U * (2 * s / (1 + jnp.sqrt(1 + 4 * s * s)))) @ W)


@affine.register(Linear)
def _(head, t, mean, L):
    """`c = 0`, `B = (Sigma + alpha alpha^T) A`."""
    A = head.score.matrix(t, mean.size)
    second_moment = lambda y: L @ (L.T @ y) + jnp.tensordot(mean, mean @ y, 0)  # noqa: E731
    return Affine(second_moment(A @ mean), second_moment(A @ L))


def is_affine(head: Any) -> bool:
    """True when a kernel's map of a Gaussian is registered here."""
    return affine.dispatch(type(head)) is not affine.dispatch(object)


def attend(attention: AbstractAttention, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d d"]):
    """`V(c + B alpha)` and `V B L`, summed over heads with their output maps."""
    at_mean, on_root = jnp.zeros_like(mean), jnp.zeros_like(L)
    for head, output in heads_and_outputs(attention):
        part = affine(head, t, mean, L)
        at_mean += output(t, head.value(t, part.at_mean[None]))[0]
        on_root += output(t, head.value(t, part.on_root.T)).T
    return Affine(at_mean, on_root)
