"""Discrete layers on equiangular tokens: their cosine and length after each layer, under each normalization rule."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._check import count, number, positive
from .._kinds import is_ours
from .._shown import shown
from ..normalization import AbstractSphereNorm
from .long_context import MOST_LAYERS, mixed_cosine, mixed_length, softmax_weights

NOT_A_RULE = "must be one of the six rules of FORMULAS §7, such as PostLN(), or an AbstractSphereNorm of your own"


class LayerCurve(NamedTuple):
    """Equiangular tokens, layer by layer.

    Attributes:
        cosine: (depth + 1,) cosines, the first before any layer.
        radius: (depth + 1,) lengths of a token.
    """

    cosine: np.ndarray
    radius: np.ndarray


def equiangular_layers(
    norm: AbstractSphereNorm,
    n: int,
    beta: float,
    depth: int,
    rho0: float = 0.0,
    radius: float = 1.0,
    step: float = 1.0,
) -> LayerCurve:
    """Return the cosine and length of n equiangular tokens through the layers of FORMULAS §7 with `Q = K = V = I`.

    They are those of `tkf.layers`, computed in O(depth). A layer adds `c A` to a direction,
    `A_i = (a-c') x_i + c' sum_k x_k`, with softmax weights a on the token itself and c' on each other token; under Peri-LN
    and nGPT it adds `c A/|A|`. The factor c is `relative_step`. The cosine is that of `u x_i + v sum_k x_k` with
    `u = 1 + c (a-c')`, `v = c c'`. Under Pre-LN and Peri-LN lengths are multiplied by `|u x_i + v sum_k x_k|`.

    Args:
        norm: the rule, e.g. `PostLN()`.
        n: number of tokens.
        beta: inverse temperature.
        depth: number of layers.
        rho0: cosine at the start.
        radius: length at the start; 1 except under Pre-LN and Peri-LN.
        step: the step h of a layer.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.theory.layer_curves import equiangular_layers
        >>> equiangular_layers(tkf.PreLN(), n=16, beta=2.0, depth=8).cosine
        array([0.        , 0.0815718 , 0.21004566, 0.3757543 , 0.54587156,
               0.6855822 , 0.78362357, 0.84777919, 0.88941381])
    """
    n, depth, step = count("n", n, 2), count("depth", depth, 1, MOST_LAYERS), positive("step", step)
    rho0, radius = checked_start(norm, n, rho0, radius)
    beta = number("beta", beta)
    cosines, radii = [rho0], [radius]
    for layer in range(depth):
        rho, r, t = cosines[-1], radii[-1], layer * step
        rule = current(norm, t)
        c = float(relative_step(rule, t, r, step))
        weights = softmax_weights(*(np.asarray(float(value)) for value in (rho, n, beta)))
        if rule.scale_free:
            length = math.sqrt(float(mixed_length(weights.excess, weights.other, rho, n)))
            c = c / length if length > 0 else 0.0
        u, v = 1 + c * weights.excess, c * weights.other
        cosines.append(mixed_cosine(u, v, rho, n))
        radii.append(r * math.sqrt(float(mixed_length(u, v, rho, n))) if rule.radial else r)
    return LayerCurve(np.array(cosines), np.array(radii))


def current(norm: AbstractSphereNorm, t: float) -> AbstractSphereNorm:
    """Return the rule of a layer at time t."""
    return next(rule for until, rule in norm.segments() if t < until)


def relative_step(rule: AbstractSphereNorm, t: float, radius: Any, step: float) -> Any:
    """Return c in `theta + c A` (`theta + c A/|A|` if the rule is scale free): h times the speed, e.g. h, h/r, h alpha."""
    at: list[Any] = [t, radius, 1.0, 1.0]
    return step * np.asarray(rule.speed(*at), float)


def checked_start(norm: Any, n: int, rho0: float, radius: float) -> tuple[float, float]:
    """Return rho0 and radius; raise ValueError if they are out of range for the rule."""
    if not isinstance(norm, AbstractSphereNorm):
        raise ValueError(f"norm {NOT_A_RULE}, got {shown(norm)}")
    if not norm.isotropic:
        raise ValueError("norm must have no gain: a gain changes the angles between the inputs of attention")
    if not is_ours(type(norm)):
        _check_layer(norm)
    least = -1 / (n - 1)
    rho0 = number("rho0", rho0)
    if not least <= rho0 <= 1:
        raise ValueError(f"rho0 must lie in [-1/(n-1), 1] = [{least:.6g}, 1], got {shown(rho0)}")
    radius, fixed = positive("radius", radius), norm.radius(2)
    if fixed is not None and radius != float(fixed):
        raise ValueError(f"radius must be {float(fixed):g} under {type(norm).__name__}, got {shown(radius)}")
    return float(rho0), radius


def _check_layer(norm: AbstractSphereNorm) -> None:
    """Raise ValueError unless a user-defined rule has the layer assumed here, `theta + h speed A`."""
    theta, A, t, h = np.array([[0.6, 0.8]]), np.array([[0.5, -0.3]]), 0.3, 0.7
    rule, fixed = current(norm, t), norm.radius(2)
    r = 1.5 if fixed is None else float(fixed)
    inner, length = float((theta * A).sum()), float(np.linalg.norm(A))
    speeds = [
        float(rule.speed(*map(jnp.asarray, (t, r, inner * k, length * k)))) * (k if rule.scale_free else 1)
        for k in (1.0, 2.0)
    ]
    expected = theta + h * speeds[0] * A
    expected *= r if rule.radial else r / np.linalg.norm(expected)
    found = rule.layer(jnp.asarray(t), jnp.asarray(r * theta), lambda x: jnp.asarray(A), h)
    if not (math.isclose(*speeds) and np.allclose(found, expected)):
        raise ValueError(
            f"norm: the layer of {type(norm).__name__} does not add `h speed A` to directions, or its speed depends on |A| "
            "other than as 1 or 1/|A|: the recursion does not describe this rule"
        )
