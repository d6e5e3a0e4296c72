"""Attention on a Gaussian measure is an affine map, `Gamma(x) = V(c + B x)`. This file computes c and B for each kernel.

With `Sigma = L L^T`, a flow needs only `c + B alpha` (the map at the mean alpha) and `B L`. In terms of L these require no
inverse and no root of Sigma, so Sigma and A may be singular (FORMULAS §5).
"""

from functools import singledispatch
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..attention import L2, AbstractAttention, Linear, Sinkhorn, Softmax, heads_and_outputs
from .matrices import damped, riccati


class Affine(NamedTuple):
    """`c + B alpha` and `B L`."""

    at_mean: Float[Array, " d"]
    on_root: Float[Array, "d d"]


@singledispatch
def affine(head: Any, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d d"]) -> Affine:
    """Return the affine map of one head on `N(mean, L L^T)`, before V. Registered for each kernel that has one."""
    raise NotImplementedError(type(head).__name__)


@affine.register(Softmax)
def _(head, t, mean, L):
    """`c = alpha`, `B = Sigma A`."""
    A = head.score.matrix(t, mean.size)
    return Affine(mean + L @ (L.T @ (A @ mean)), L @ (L.T @ A @ L))


@affine.register(L2)
def _(head, t, mean, L):
    """`B = (I + Sigma P)^{-1} Sigma A`, `c = (I + Sigma P)^{-1} alpha`, `A = 2 beta K^T Q`, `P = 2 beta K^T K`.

    With `M = K L` and `b = 2 beta`, `(I + Sigma P)^{-1} L L^T K^T = L M^T (I + b M M^T)^{-1}`. Forming `L^T P L` instead
    would square the condition number of L and lose all digits when Sigma is large and nearly singular.
    """
    identity = jnp.eye(mean.size)
    q, k, _ = head.score.factors(t, identity, identity)  # q^T = 2 beta Q, k^T = K
    b = head.score.sharpness(t, identity)
    spread = L @ damped(k.T @ L, b).G
    return Affine(mean + spread @ ((q.T - b * k.T) @ mean), spread @ (q.T @ L))


@affine.register(Sinkhorn)
def _(head, t, mean, L):
    """`c + B alpha = alpha`, `B L = 2 L M (I + (I + 4 M^T M)^{1/2})^{-1}` with `M = L^T A L = U s W^T`.

    Any factor L of Sigma will do: a rotation of L rotates M and the function of `M^T M` in the same way.
    """
    return Affine(mean, L @ riccati(L.T @ head.score.matrix(t, mean.size) @ L))


@affine.register(Linear)
def _(head, t, mean, L):
    """`c = 0`, `B = (Sigma + alpha alpha^T) A`."""
    A = head.score.matrix(t, mean.size)
    second_moment = lambda y: L @ (L.T @ y) + jnp.tensordot(mean, mean @ y, 0)  # noqa: E731
    return Affine(second_moment(A @ mean), second_moment(A @ L))


def is_affine(head: Any) -> bool:
    """Return True if the affine map of a kernel on a Gaussian is registered here."""
    return affine.dispatch(type(head)) is not affine.dispatch(object)


def attend(attention: AbstractAttention, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d d"]):
    """Return `V(c + B alpha)` and `V B L`, summed over heads with their output maps."""
    at_mean, on_root = jnp.zeros_like(mean), jnp.zeros_like(L)
    for head, output in heads_and_outputs(attention):
        part = affine(head, t, mean, L)
        at_mean += output(t, head.value(t, part.at_mean[None]))[0]
        on_root += output(t, head.value(t, part.on_root.T)).T
    return Affine(at_mean, on_root)
