"""The interaction energy that the SA and USA flows increase."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from .._xla.compilation import compiled_by_size
from ..attention.base import AbstractAttention
from ..attention.sums import map_rows
from ..flows.energy import expm1_ratio, isotropic_beta, quadratic_form, reads_of
from ..states import AbstractDensity, Equiangular, Tokens
from ..states.tokens import only_tokens
from ..transformer import Transformer
from .safe import units
from .series import observable


@observable("interaction energy", rotation_invariant=True)
def energy(
    state: Tokens | Equiangular, model: Transformer | AbstractAttention | float, *, centered: bool = False
) -> Float[Array, ""]:
    """Return the energy `E_beta(mu) = (1/2beta) ∬ e^{beta<x,y>} dmu dmu`, which the SA and USA flows increase (FORMULAS §2).

    With `V = v I` it is multiplied by v, so that the velocity is its gradient. For a general symmetric A with `A = c V` it is
    `(1/2c) ∬ e^{<Ax,y>} dmu dmu`. Other models have no energy. If the norm moves directions on the sphere, it is the energy of
    the directions. Inside jit, vmap or grad, `A = c V` is assumed, because the entries of matrices are not known there.

    Args:
        state: the tokens.
        model: a Transformer, an attention, or beta itself.
        centered: subtract the constant `1/(2 beta)`, computed without cancellation as `½ ∬ expm1(beta s)/beta`.
            At beta = 0, where the constant is infinite, this is always done: E = ½ |∫ x dmu|^2.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.energy(tkf.uniform_sphere(64, 3, seed=0), 4.0)
        1.000626453568482
    """
    state = _flat("energy", state, model)
    M, c, v = quadratic_form(model, state.d)
    gain, directions = reads_of(model, state.d)
    x, c = units(state.x) if directions else state.x, jnp.asarray(c * gain)
    return finite_energy(v * energy_of(x, state.weights, c, M, centered), c)


def _flat(name: str, state: Any, model: Any) -> Tokens:
    """Return the tokens; raise ValueError if their inner product is not that of R^d."""
    state = only_tokens(name, state)
    for space in (state.given_space, model.space if isinstance(model, Transformer) else None):
        if space is not None and space.indefinite:
            raise ValueError(
                f"{name} is defined in R^d and on its sphere, not in {type(space).__name__}: see mean_distance"
            )
    return state


def finite_energy(value: Array, beta: Array) -> Array:
    """Return an energy; raise ValueError if it has overflowed, unless it is traced."""
    if is_concrete(value) and not np.isfinite(float(value)):
        raise ValueError(f"energy overflows at beta = {float(beta):g}: use normalized_energy")
    return value


@observable("normalized energy", rotation_invariant=True)
def normalized_energy(
    state: Tokens | Equiangular | AbstractDensity, model: Transformer | AbstractAttention | float
) -> Float[Array, ""]:
    """Return `Ebar = ∬ e^{beta(<x,y>-1)} dmu dmu`, in (0, 1] for tokens on the unit sphere (FORMULAS §2).

    It does not overflow, is 1 for one cluster, and has plateaus at `sum_c mass_c^2` in metastable states. It needs
    `A = beta I` and `V = v I`, given as numbers or as matrices; v only sets the speed of the flow and its sign. If the norm
    moves directions on the sphere, it is the energy of the directions; a gain g of the norm multiplies beta by `g^2 d`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.normalized_energy(tkf.uniform_sphere(64, 3, seed=0), 4.0)
        0.14661690228860041
    """
    state = _flat("normalized_energy", state, model)
    beta = isotropic_beta("normalized_energy", model, state.d)
    gain, directions = reads_of(model, state.d)
    value = normalized_energy_of(state.x, state.weights, beta, gain, directions)
    if is_concrete(value) and not np.isfinite(float(value)):
        longest = float(jnp.linalg.norm(state.x, axis=1).max())
        raise ValueError(
            f"normalized_energy overflows for tokens of length {longest:.3g}: it is for unit tokens, use state.normalized()"
        )
    return value


@compiled_by_size(static_argnames="centered")
def energy_of(
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    c: Float[Array, ""],
    M: Float[Array, "d d"] | None = None,
    centered: bool = False,
) -> Float[Array, ""]:
    """Return `(1/2c) ∬ e^{c <Mx,y>} dmu dmu` for arrays; M = None is the identity. Centered if `centered` or c = 0."""
    left, n = x if M is None else x @ M.T, x.shape[0]

    def double_sum(f: Callable) -> Array:
        return w @ map_rows(jax.checkpoint(lambda rows: f(rows @ x.T) @ w), n, n, left)

    if centered:
        return 0.5 * double_sum(lambda s: s * expm1_ratio(c * s))
    whole = 0.5 * double_sum(lambda s: jnp.exp(c * s)) / jnp.where(c == 0, 1, c)
    # Near c = 0, correct up to the first derivative: ½ ∬ s + c s^2/2, s = <Mx,y>.
    flat = 0.5 * (w @ left) @ (w @ x) + 0.25 * c * jnp.sum((w * left.T) @ left * ((w * x.T) @ x))
    return jnp.where(c == 0, flat, whole)


@compiled_by_size(static_argnames="directions")
def normalized_energy_of(
    x: Float[Array, "n d"],
    w: Float[Array, " n"],
    beta: Array | float,
    gain: Array | float = 1.0,
    directions: bool = False,
) -> Float[Array, ""]:
    """Return the `normalized_energy` for arrays at inverse temperature `beta gain`, of directions x/|x| if `directions`."""
    x, beta = units(x) if directions else x, beta * gain
    rows = jax.checkpoint(lambda rows: jnp.exp(beta * (rows @ x.T - 1)) @ w)
    return w @ map_rows(rows, x.shape[0], x.shape[0], x)
