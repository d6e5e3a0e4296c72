"""The same observables for states that stand for many tokens by few numbers."""

import math

import numpy as np

from ..states import AbstractDensity, Equiangular, Gaussian
from ..theory.modes import log_multiplier
from .interaction import energy, normalized_energy, quadratic_form
from .order import mean_cosine, order_parameter
from .rank import effective_rank, spread_over


@order_parameter.register(Equiangular)
def _(state: Equiangular) -> float:
    """`|mean direction|^2 = (1 + (n-1) rho)/n`."""
    return math.sqrt(max(1 - (state.n - 1) / state.n * float(state.gap), 0.0))


@order_parameter.register(AbstractDensity)
def _(state: AbstractDensity) -> float:
    """`|∫ x dmu|` from the harmonics of degree 1, which are the coordinates up to a factor."""
    first = np.where(np.asarray(state.harmonics.degree) == 1, np.asarray(state.coefficients), 0.0)
    return float(np.linalg.norm(first) * state.d**-0.5)


@normalized_energy.register(AbstractDensity)
def _(state: AbstractDensity, model) -> float:
    """`∬ e^{beta(<x,y>-1)} dmu dmu = sum_l w_l e^{-beta} c_l^2`."""
    A, beta = quadratic_form(model, state.d)
    if A is not None:
        raise ValueError("normalized_energy of a density needs isotropic attention (A = beta I)")
    degree = np.asarray(state.harmonics.degree).astype(int)
    logs = np.array([log_multiplier(k, abs(beta), state.d) - abs(beta) for k in range(state.modes + 1)])
    w = np.where(np.arange(state.modes + 1) % 2, math.copysign(1.0, beta), 1.0) * np.exp(logs)
    shift = math.exp(abs(beta) - beta)
    return shift * float(
        (np.where(degree >= 0, w[np.maximum(degree, 0)], 0.0) * np.asarray(state.coefficients) ** 2).sum()
    )


@mean_cosine.register(Equiangular)
def _(state: Equiangular) -> float:
    return float(state.rho)


@normalized_energy.register(Equiangular)
def _(state: Equiangular, model) -> float:
    """`(1 + (n-1) e^{-beta (1-rho)})/n` of the directions."""
    A, beta = quadratic_form(model, 2)
    if A is not None:
        raise ValueError("normalized_energy needs isotropic attention (A = beta I)")
    return (1 + (state.n - 1) * math.exp(-beta * float(state.gap))) / state.n


@energy.register(Equiangular)
def _(state: Equiangular, model, *, centred: bool = False) -> float:
    """`(1/2 beta n)(e^beta + (n-1) e^{beta rho})` of the directions; centred, with expm1."""
    A, beta = quadratic_form(model, 2)
    if A is not None:
        raise ValueError("energy of Equiangular needs isotropic attention (A = beta I)")
    n, rho = state.n, float(state.rho)
    if beta == 0:
        return (1 + (n - 1) * rho) / (2 * n)
    f = math.expm1 if centred else math.exp
    try:
        return (f(beta) + (n - 1) * f(beta * rho)) / (2 * beta * n)
    except OverflowError:
        raise ValueError(f"energy overflows at beta = {beta:g}: use normalized_energy") from None


@effective_rank.register(Gaussian)
def _(state: Gaussian, centred: bool = False) -> float:
    """Of the covariance (centred) or of the second moment."""
    mean = np.asarray(state.mean)
    moment = np.asarray(state.cov) + (0 if centred else np.outer(mean, mean))
    return spread_over(np.sqrt(np.maximum(np.linalg.eigvalsh(moment)[::-1], 0)))
