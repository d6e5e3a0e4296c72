"""Layers on a density: the growth factor of a small mode, and the step sizes at which layers stop behaving like the flow."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import count, number, positive
from .._shown import shown
from ..flows.density_field import DensityField, determinant, directions
from ..flows.layers import layer_flow
from ..states import CircleDensity, ZonalDensity
from ..transformer import Transformer, only_transformer
from .modes import first_clusters, growth_rates, log_multiplier
from .names import MOST_DIMENSION, kernel_name

POINTS = 8192  # of the grid on which a fold is searched


class DensitySteps(NamedTuple):
    """Critical step sizes of layers with V = -1 on the uniform density.

    Attributes:
        alternate: above this step the uniform density is unstable: modes grow, and up to `flip` change sign in each layer.
        degree: degree of the first mode to become unstable.
        flip: at this step `x + h Gamma(x)` is 0 for all x; above it tokens jump to the opposite side of the sphere.
    """

    alternate: float
    degree: int
    flip: float


def layer_factors(
    beta: float,
    d: int,
    step: float = 1.0,
    V: float = 1.0,
    attention: str = "softmax",
    modes: int | Sequence[int] = 32,
) -> np.ndarray:
    """Return the factor by which one Post-LN layer multiplies a small mode on the uniform density, for each degree k.

    Attention to the uniform density is `V rho x`, `rho = w_1/w_0` (unnormalized: w_1). A small mode adds `V ∇psi`, and a layer
    moves tokens by `h V ∇psi/(1 + h V rho)`, so the factor is `1 + h V lambda_k/(1 + h V rho)`, lambda_k the growth rate of the
    flow with V = 1 (`growth_rates`). If `1 + h V rho < 0`, the layer also maps the sphere to its opposite side. This multiplies
    odd degrees by -1, a sign that the factor does not include.

    Args:
        beta: inverse temperature, >= 0.
        d: dimension of the tokens.
        step: the step size h of a layer.
        V: the value coefficient, a number v for V = v I.
        attention: "softmax" or "unnormalized".
        modes: the last degree (then degrees 0, 1, …, modes), or a list of degrees.

    Returns:
        an array with one factor per degree.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.layer_factors(beta=2.0, d=2, step=0.5, modes=3)
        array([1.        , 1.12932412, 1.22405529, 1.15566826])
    """
    h, V = positive("step", step), number("V", V)
    rates = growth_rates(beta, d, attention, modes)
    whole = 1 + h * V * _pull(beta, d, attention)
    if abs(whole) < 1e-12:
        raise ValueError(
            f"step must not be {h:g} for V = {V:g}: x + h Gamma(x) is 0 for all tokens, so there is no layer"
        )
    return 1 + h * V * rates / whole


def density_steps(beta: float, d: int) -> DensitySteps:
    """Return the step sizes h at which repulsive layers (V = -1, Post-LN, softmax) on the uniform density change behavior.

    The flow with V = -1 damps every small mode. A layer multiplies it by `1 - h lambda_k/(1 - h rho)` (`layer_factors`), which
    is below -1 if `2/(lambda_k + 2 rho) < h < 1/rho`. The first degree to become unstable is that of the largest rate,
    `first_clusters(beta, d)`.

    Args:
        beta: inverse temperature, > 0.
        d: dimension of the tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.density_steps(beta=4.0, d=2)
        DensitySteps(alternate=0.8363182807262415, degree=3, flip=1.1580472673593596)
    """
    beta, d = positive("beta", beta), count("d", d, 2, MOST_DIMENSION)
    degree, rho = first_clusters(beta, d), _pull(beta, d, "softmax")
    rate = float(growth_rates(beta, d, modes=[degree])[0])
    return DensitySteps(2 / (rate + 2 * rho), degree, 1 / rho)


def fold_step(model: Transformer, density: CircleDensity | ZonalDensity) -> float:
    """Return the smallest step size at which a layer on a density maps two tokens to one point; infinite if there is none.

    A layer is `T(x) = N(z)`, `z = x + h Gamma(x)`. On a great circle with tangent tau, T folds where `det(z, D_tau z)`, a
    quadratic polynomial in h, is 0. A circle of latitude is mapped to a pole where z lies on the axis. The density is infinite
    there. If all mass is at one point and V = 1, `det = 1 + h cos a` at angle a from it: the fold begins opposite, at h = 1.

    Args:
        model: a Transformer that has layers on densities.
        density: the density before the layer.

    Returns:
        the step size, from a grid of 8192 points: accurate to about six digits.

    Example:
        >>> import numpy as np, tokenfield as tkf
        >>> density = tkf.CircleDensity.from_function(lambda a: np.exp(4 * np.cos(a)), modes=48)
        >>> model = tkf.Transformer(tkf.Softmax(beta=2.0, V=-1.0), norm=tkf.PostLN())
        >>> round(tkf.theory.fold_step(model, density), 4)
        1.0961
    """
    only_transformer(model)
    if not isinstance(density, CircleDensity | ZonalDensity):
        raise ValueError(f"density must be a CircleDensity or a ZonalDensity, got {shown(density)}")
    field = layer_flow(density, model).field  # type: ignore[attr-defined]
    whole = 2 * np.pi if isinstance(density, CircleDensity) else np.pi
    a = whole * (np.arange(POINTS) + 0.5) / POINTS
    x = jnp.asarray(np.stack([np.sin(a), np.cos(a)], axis=1))
    values = [np.asarray(part) for part in _at_steps(field, density.coefficients, x)]
    b, c = (4 * values[1] - values[2] - 3 * values[0]) / 2, (values[2] - 2 * values[1] + values[0]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        split = np.sqrt(b * b - 4 * c)  # roots of 1 + b h + c h^2; NaN where there is none
        roots = [2 / (-b - split), 2 / (-b + split)]
        if isinstance(density, ZonalDensity):
            roots.append(-1 / values[3])
    found = np.concatenate(roots)
    return float(np.min(found[found > 0], initial=math.inf))


@eqx.filter_jit
def _at_steps(field: DensityField, c: Array, x: Float[Array, "n 2"]) -> tuple[Array, ...]:
    """Return `det(z, D_tau z)` for h = 0, 1, 2, and the derivative in h of z's distance from the axis, relative to that of x."""
    (tau,) = directions(x)
    gamma, slope = jax.jvp(partial(field, c), (x,), (tau,))
    at = lambda h: determinant(x + h * gamma, tau + h * slope)  # noqa: E731
    return at(0.0), at(1.0), at(2.0), gamma[:, 0] / x[:, 0]


def _pull(beta: float, d: int, attention: str) -> float:
    """Return `<x, Gamma(x)>` for the uniform density and V = 1."""
    log = log_multiplier(1, beta, d)
    return math.exp(log - (log_multiplier(0, beta, d) if kernel_name(attention) == "softmax" else 0.0))
