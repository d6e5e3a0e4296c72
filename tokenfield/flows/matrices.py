"""Matrix functions by singular values, whose derivatives are finite even where singular values coincide.

Derivatives of singular vectors have differences of singular values in the denominator. The functions here avoid them:
each function solves an equation, and the derivative of that equation is used instead.
"""

from typing import NamedTuple

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SINGULAR = 1e-14  # eigenvalues below this, relative to the largest, count as 0


@jax.custom_jvp
def root(S: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return a factor L of `S = L L^T`. Eigenvalues that are negative by rounding count as 0.

    L is unique only up to a rotation, so its derivative is that of one choice: `dS = dL L^T + L dL^T` for every dS that keeps
    the rank of S. In directions that raise the rank L has no derivative: it is NaN, in forward mode.
    """
    return _factors(S)[0]


@root.defjvp
def _(primals, tangents):
    """`dL = (I - P/2) dS L^{+T}`, where P projects onto the range of S: `dL L^T + L dL^T = P dS + dS P - P dS P`."""
    (S,), (dS,) = primals, tangents
    L, inverse = _factors(_once(S))
    dS, P = (dS + dS.T) / 2, L @ inverse
    return root(S), (dS - P @ dS / 2) @ inverse.T + _nan_if_raised(jnp.eye(len(S)) - P, dS)


def _factors(S: Float[Array, "d d"]) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """Return L and its pseudoinverse."""
    eigenvalues, vectors = jnp.linalg.eigh((S + S.T) / 2)
    roots = jnp.sqrt(jnp.maximum(eigenvalues, 0))
    there = eigenvalues > SINGULAR * jnp.abs(eigenvalues).max()
    return vectors * roots, jnp.where(there, 1 / jnp.where(there, roots, 1), 0)[:, None] * vectors.T


def _nan_if_raised(null: Float[Array, "d d"], dS: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return 0, or NaN if dS has a part in the null space on both sides.

    In reverse mode it is 0: a gradient by S then applies to directions that keep the rank, such as those of `S = B B^T`.
    """
    return _raised.bind(null, dS)[0]


def _nan_if(condition, like: Array) -> Array:
    return jnp.where(condition, jnp.nan, jnp.zeros_like(like))


_raised = eqxi.create_vprim(  # declared linear in dS, as a derivative must be
    "nan_if_raised",
    impl=lambda null, dS: [_nan_if(jnp.abs(null @ dS @ null).max() > 1e-9 * jnp.abs(dS).max(), dS)],
    abstract_eval=lambda null, dS: [dS],
    jvp=lambda primals, tangents: ([_nan_if_raised(*primals)], [_nan_if(True, primals[1])]),
    transpose=lambda cotangents, null, dS: [None, jnp.zeros_like(null)],
)


def _once(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return a matrix that a first derivative depends on; a second derivative raises an error."""
    return eqxi.nondifferentiable(
        matrix, msg="a Gaussian has no second derivatives here: use first derivatives, or tokens"
    )


class Damped(NamedTuple):
    """`G = M^T (I + b M M^T)^{-1}`, `(I + b M M^T)^{-1}` and `(I + b M^T M)^{-1}`."""

    G: Float[Array, "d k"]
    left: Float[Array, "k k"]
    right: Float[Array, "d d"]


@jax.custom_jvp
def damped(M: Float[Array, "k d"], b: Float[Array, ""]) -> Damped:
    """Return `M^T (I + b M M^T)^{-1}` and the two inverses of `Damped`. With `M = U s W^T` it is `W s/(1 + b s^2) U^T`.

    Solving with `I + b M M^T` instead would square the condition number of M.
    """
    U, s, W = jnp.linalg.svd(M, full_matrices=True)
    k = len(s)
    shrunk = lambda size: 1 / (1 + b * jnp.pad(s * s, (0, size - k)))  # noqa: E731
    G = (W[:k].T * (s / (1 + b * s * s))) @ U[:, :k].T
    return Damped(G, (U * shrunk(len(U))) @ U.T, (W.T * shrunk(len(W))) @ W)


@damped.defjvp
def _(primals, tangents):
    (M, b), (dM, db) = primals, tangents
    found = damped(M, b)
    G, left, right = found
    twice = lambda a: a + a.T  # noqa: E731
    return found, Damped(
        right @ dM.T @ left - b * G @ dM @ G - db * G @ M @ G,
        -b * twice(left @ dM @ G) - db * G.T @ G,
        -b * twice(right @ dM.T @ G.T) - db * G @ G.T,
    )


@jax.custom_jvp
def riccati(M: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return `F = 2 M (I + (I + 4 M^T M)^{1/2})^{-1}`, the solution of `F + F M^T F = M` that is small when M is."""
    U, s, W = jnp.linalg.svd(M)
    return (U * (2 * s / (1 + jnp.sqrt(1 + 4 * s * s)))) @ W


@riccati.defjvp
def _(primals, tangents):
    """`dF + dF M^T F + F M^T dF = dM - F dM^T F`; `M^T F` and `F M^T` have the eigenvalues `a = s f >= 0`."""
    (M,), (dM,) = primals, tangents
    F = riccati(M)
    U, s, W = jnp.linalg.svd(_once(M))
    a = 2 * s * s / (1 + jnp.sqrt(1 + 4 * s * s))
    right = U.T @ (dM - F @ dM.T @ F) @ W.T
    return F, U @ (right / (1 + a[:, None] + a)) @ W


@jax.custom_jvp
def shortest(L: Float[Array, "d d"], X: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Return the `X + L Omega` (Omega skew) of smallest norm. All change `L L^T` in the same way; this one does not rotate L.

    It is the one with `L^T (X + L Omega)` symmetric. With `L = U s W^T` and `Y = U^T X W` it has the entries
    `s_j (s_j Y_ij + s_i Y_ji) / (s_i^2 + s_j^2)`, 0 where both s are 0 (X = V B L vanishes where L does).
    """
    U, s, W = jnp.linalg.svd(L)
    Y, square = U.T @ X @ W.T, s[:, None] ** 2 + s**2
    entries = s * (s * Y + s[:, None] * Y.T) / jnp.where(square > 0, square, 1)
    return U @ entries @ W


@shortest.defjvp
def _(primals, tangents):
    """`dX + dL Omega` with Omega held constant: `L L^T` does not depend on Omega, nor on its change."""
    (L, X), (dL, dX) = primals, tangents
    U, s, W = jnp.linalg.svd(_once(L))
    Y, square = U.T @ _once(X) @ W.T, s[:, None] ** 2 + s**2
    Omega = (s * Y.T - s[:, None] * Y) / jnp.where(square > 0, square, 1)
    return shortest(L, X), dX + dL @ (W.T @ Omega @ W)
