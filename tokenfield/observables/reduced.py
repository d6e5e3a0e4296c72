"""Observables of the states other than `Tokens`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..flows.energy import expm1_ratio, isotropic_beta, quadratic_form, reads_of
from ..spectral import scaled_multipliers
from ..states import AbstractDensity, Equiangular, Gaussian
from .interaction import energy, finite_energy, normalized_energy
from .order import cosine_gap, mean_cosine, mean_length, order_parameter
from .pairs import fraction_above, smallest_cosine
from .rank import effective_rank, rank_of_moment
from .safe import root


@order_parameter.register(Equiangular)
def _(state: Equiangular) -> Float[Array, ""]:
    """Return the root of `|mean direction|^2 = (1 + (n-1) rho)/n`."""
    return root(1 - (state.n - 1) / state.n * state.gap)


@order_parameter.register(AbstractDensity)
def _(state: AbstractDensity) -> Float[Array, ""]:
    """Return `|∫ x dmu|` from the harmonics of degree 1, which are the coordinates up to a factor."""
    first = jnp.where(state.harmonics.degree == 1, state.coefficients, 0.0)
    return root(jnp.sum(first**2)) * state.d**-0.5


@mean_cosine.register(Equiangular)
def _(state: Equiangular) -> Float[Array, ""]:
    return state.rho


@cosine_gap.register(Equiangular)
def _(state: Equiangular) -> Float[Array, ""]:
    return state.gap


@smallest_cosine.register(Equiangular)
def _(state: Equiangular) -> Float[Array, ""]:
    return 1 - state.gap


@fraction_above.register(Equiangular)
def _(state: Equiangular, threshold: float = 0.999) -> Float[Array, ""]:
    return jnp.asarray(state.gap < 1 - threshold, float)


@mean_length.register(Equiangular)
def _(state: Equiangular) -> Float[Array, ""]:
    return state.radius


@normalized_energy.register(Equiangular)
def _(state: Equiangular, model) -> Float[Array, ""]:
    """Return `e^{beta (R^2-1)} (1 + (n-1) e^{-beta R^2 (1-rho)})/n` with the radius R, or R = 1 for the energy of directions."""
    beta, square = isotropic_beta("normalized_energy", model, None), _square(state, model)
    value = jnp.exp(beta * (square - 1)) * (1 + (state.n - 1) * jnp.exp(-beta * square * state.gap)) / state.n
    if is_concrete(value) and not np.isfinite(float(value)):
        raise ValueError(
            f"normalized_energy overflows for tokens of length {float(state.radius):.3g}: it is for unit tokens"
        )
    return value


@energy.register(Equiangular)
def _(state: Equiangular, model, *, centered: bool = False) -> Float[Array, ""]:
    """Return `(v/2 beta n)(e^{beta R^2} + (n-1) e^{beta R^2 rho})`, with expm1 if `centered`; R as in `normalized_energy`."""
    M, beta, v = quadratic_form(model, None)
    if M is not None:
        raise ValueError("energy of Equiangular needs isotropic attention, A = beta I and V = v I")
    beta, square = jnp.asarray(beta), _square(state, model)
    return finite_energy(v * square * _equiangular_energy(state.rho, state.n, beta * square, centered), beta)


def _square(state: Equiangular, model: Any) -> Array:
    """Return the squared length of the tokens, or 1 if the energy of the model is that of their directions."""
    return jnp.ones(()) if reads_of(model, None)[1] else state.radius**2


@jax.jit
def _equiangular_energy(rho: Array, n: int, beta: Array, centered: bool) -> Array:
    """Return the energy, centered if `centered` or beta = 0."""
    about_zero = centered | (beta == 0)
    b, safe = jnp.where(about_zero, beta, 0), jnp.where(about_zero, 1, beta)
    about = expm1_ratio(b) + (n - 1) * rho * expm1_ratio(b * rho)
    whole = (jnp.exp(beta) + (n - 1) * jnp.exp(beta * rho)) / safe
    return jnp.where(about_zero, about, whole) / (2 * n)


@normalized_energy.register(AbstractDensity)
def _(state: AbstractDensity, model) -> Float[Array, ""]:
    """Return `∬ e^{beta(<x,y>-1)} dmu dmu = sum_l w_l e^{-beta} c_l^2`."""
    beta = isotropic_beta("normalized_energy", model, state.d)
    degree = jnp.asarray(state.harmonics.degree, int)
    weights = jnp.where(
        degree >= 0, scaled_multipliers(jnp.asarray(beta, float), state.d, state.modes)[jnp.maximum(degree, 0)], 0.0
    )
    return jnp.exp(jnp.abs(beta) - beta) * jnp.sum(weights * state.coefficients**2)


@effective_rank.register(Gaussian)
def _(state: Gaussian, centered: bool = False) -> Float[Array, ""]:
    """Return the effective rank of the covariance if `centered`, otherwise of the second moment."""
    return rank_of_moment(state.cov if centered else state.cov + jnp.outer(state.mean, state.mean))
