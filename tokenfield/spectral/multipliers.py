"""Funk–Hecke multipliers of the kernel `e^{beta<x,y>}` and of any smooth kernel, differentiable in beta by JAX."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .gegenbauer import gauss

LAST, NODES = 512, 1024  # the highest degree of a smooth kernel, and the nodes of its quadrature
EXTRA = 256  # the recurrence starts this many orders above the last one


class Multipliers(NamedTuple):
    """`w_k`, the factor of spherical harmonics of degree k = 0 … modes, in two parts without a singularity at beta = 0."""

    whole: Float[Array, ""]
    """`w_0 e^{-|beta|}`."""
    ratios: Float[Array, " k"]
    """`w_k / (beta w_0)` for k >= 1, and 0 for k = 0."""


def multipliers(beta: Float[Array, ""], d: int, modes: int) -> Multipliers:
    """Return the multipliers of `e^{beta<x,y>}` on the sphere of R^d, for beta of any sign and size (FORMULAS §8).

    `w_k = Gamma(d/2) (2/beta)^{d/2-1} I_{k+d/2-1}(beta)`. The ratio `q_v = I_v/(beta I_{v-1})` is an even function of beta,
    smooth at 0, and `1/q_v = 2 v + beta^2 q_{v+1}` for every order v. This recurrence is stable downward, and an error of the
    starting value decays like the square of `I_v`. Then `w_k/w_{k-1} = beta q_{k+d/2-1}`. Starting from `I_0` or `I_{1/2}`,
    `w_0` in R^{d+2} is `d q_{d/2}` times `w_0` in R^d.

    Args:
        beta: inverse temperature.
        d: dimension of the tokens, at least 2.
        modes: the highest degree.

    Example:
        >>> import jax.numpy as jnp
        >>> from tokenfield.spectral.multipliers import multipliers
        >>> multipliers(jnp.array(1.0), d=3, modes=4).whole  # sinh(1)/e
        Array(0.43233236, dtype=float64)
    """
    odd = d % 2
    up = (d - 2) // 2  # from R^2 or R^3 to R^d, two dimensions at a time
    orders = jnp.arange(1, up + modes + EXTRA + 1) + 0.5 * odd
    square = beta * beta

    def down(q, v):
        q = 1 / (2 * v + square * q)
        return q, q

    _, q = jax.lax.scan(down, _start(orders[-1] + 1, square), orders, reverse=True)
    size = jnp.abs(beta)
    base = _sinhc(size) if odd else _i0e(size)
    whole = base * jnp.prod(2 * orders[:up] * q[:up])
    steps = q[up : up + modes]
    ratios = jnp.cumprod(jnp.concatenate([steps[:1], beta * steps[1:]])) if modes else steps
    return Multipliers(whole, jnp.concatenate([jnp.zeros_like(q[:1]), ratios]))


def scaled_multipliers(beta: Float[Array, ""], d: int, modes: int) -> Float[Array, " k"]:
    """Return `w_k e^{-|beta|}` for k = 0 … modes."""
    whole, ratios = multipliers(beta, d, modes)
    return whole * (beta * ratios).at[0].set(1.0)


def kernel_multipliers(phi: Callable[[Array], Array], beta: Float[Array, ""], d: int) -> Float[Array, " k"]:
    """Return the multipliers of `phi(beta<x,y>)` on the sphere of R^d for degrees 0 … LAST, by Gauss quadrature.

    `w_k = ∫ phi(beta t) P_k(t) dlaw(t)`, t the law of one coordinate of a uniform point and `P_k(1) = 1` (Funk–Hecke).

    Example:
        >>> import jax.numpy as jnp
        >>> from tokenfield.spectral.multipliers import kernel_multipliers
        >>> kernel_multipliers(lambda s: s, jnp.array(3.0), d=3)[1]  # 3 t has one harmonic, and P_1 = t has square 1/3
        Array(1., dtype=float64)
    """
    t, table = _table(d)
    return phi(beta * t) @ table


@lru_cache(maxsize=16)
def _table(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes, and `weight P_k` there for k = 0 … LAST."""
    t, weights = gauss(NODES, d)
    P = np.ones((NODES, LAST + 1))
    P[:, 1] = t
    for k in range(1, LAST):
        P[:, k + 1] = ((2 * k + d - 2) * t * P[:, k] - k * P[:, k - 1]) / (k + d - 2)
    return t, weights[:, None] * P


def _start(v: Array, square: Float[Array, ""]) -> Float[Array, ""]:
    """Return `q_v` for a large order v, up to `(v^2 + beta^2)^{-3/2}`, by Debye's expansion of `I_v'/I_v`."""
    T = jnp.sqrt(v * v + square)
    s = v * v / (v * v + square)
    return 1 / (v + T - (1 - s) / 2 - (1 - s) * (1 - 5 * s) / (8 * T))


@jax.custom_jvp
def _i0e(b: Float[Array, ""]) -> Float[Array, ""]:
    """Return `e^{-b} I_0(b)` for b >= 0."""
    return jax.scipy.special.i0e(b)


@_i0e.defjvp
def _(primals, tangents):
    """Return the derivative; at b = 0 the one from the right, to match that of |beta| (JAX's own is 0 there)."""
    value = _i0e(*primals)
    return value, (jax.scipy.special.i1e(*primals) - value) * tangents[0]


def _sinhc(b: Float[Array, ""]) -> Float[Array, ""]:
    """Return `e^{-b} sinh(b)/b` for b >= 0, differentiable at 0 too."""
    small = b < 0.5
    near, far = jnp.where(small, b, 0.0), jnp.where(small, 1.0, b)
    series, square = jnp.ones_like(b), near * near
    for k in range(9, 0, -1):
        series = 1 + square * series / (2 * k * (2 * k + 1))
    return jnp.where(small, jnp.exp(-near) * series, -jnp.expm1(-2 * far) / (2 * far))
