"""Layers on Gaussians, softmax without a norm: each eigenvalue of `v Sigma A` obeys its own recursion.

A layer `x <- x + h Gamma(x)` with V = v multiplies deviations from the mean by `I + h B`, `B = v Sigma A`. For symmetric A

    Sigma <- (I + h B) Sigma (I + h B)^T,    B <- B (I + h B)^2,

so the eigenvalues b of B, which are real, obey `b <- b (1 + h b)^2`; the flow is `b' = 2 b^2`. They and Sigma_0 determine
Sigma: `Sigma_k = Sigma_0^{1/2} U diag(b_k/b_0) U^T Sigma_0^{1/2}`, U the eigenvectors of `v Sigma_0^{1/2} A Sigma_0^{1/2}`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, count, number, positive
from .._shown import shown
from .gaussian import TOLERANCE, _matrices, _same

HUGE = 1e150  # a covariance that has grown by more than this factor counts as infinite


class GaussianSteps(NamedTuple):
    """Critical step sizes of layers on a Gaussian that the flow contracts.

    Attributes:
        overshoot: above this step tokens jump to the other side of their mean.
        blow_up: at this step tokens return after two layers; above it the covariance grows without bound.
    """

    overshoot: float
    blow_up: float


def gaussian_layers(A: ArrayLike, V: float | None, cov: ArrayLike, step: float = 1.0, depth: int = 1) -> np.ndarray:
    """Return the covariance of a Gaussian after `depth` layers `x <- x + h Gamma(x)` of softmax attention without a norm.

    As `h -> 0` with `h depth = t` it tends to `gaussian_closed_form`. If no eigenvalue of `v Sigma A` is positive and the step
    is below `gaussian_steps(...).blow_up`, its limit for many layers is that of the flow, `gaussian_limit`, for every step.

    Args:
        A: (d, d) symmetric score matrix, or a number a for a I.
        V: the value coefficient, a number v for V = v I, or None for 1.
        cov: (d, d) covariance before the first layer; it may be singular.
        step: the step size h.
        depth: the number of layers.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_layers([[-1.0, 0.0], [0.0, 0.5]], None, [[0.7, 0.1], [0.1, 0.3]], step=0.5, depth=4)
        array([[0.14618781, 0.05184621],
               [0.05184621, 0.58901   ]])
    """
    h, depth = positive("step", step), count("depth", depth, 0)
    root, b, U = _spectrum(A, V, cov)
    factor = np.ones_like(b)
    for _ in range(depth):
        with np.errstate(over="ignore", invalid="ignore"):
            factor = factor * (1 + h * b * factor) ** 2
        if not (np.abs(factor) < HUGE).all():
            raise ValueError(f"depth must be smaller: the covariance overflows within {depth} layers with step {h:g}")
    half = root @ U
    return (half * factor) @ half.T


def gaussian_steps(A: ArrayLike, V: float | None, cov: ArrayLike) -> GaussianSteps:
    """Return the step sizes at which layers on a Gaussian stop behaving like the flow.

    They are `-1/b` and `-2/b`, b the smallest eigenvalue of `v Sigma A`. Between them tokens jump to the other side of their mean
    in the first layers, and then contract. At `h = -2/b` a layer reflects the tokens in that direction, and the next one reflects
    them back. If an eigenvalue is positive, the covariance grows without bound at any step, as under the flow, but it is finite
    after any number of layers.

    Args:
        A: (d, d) symmetric score matrix, or a number a for a I.
        V: the value coefficient, a number v for V = v I, or None for 1.
        cov: (d, d) covariance before the first layer.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.gaussian_steps(-0.5, None, [[1.0]])
        GaussianSteps(overshoot=2.0, blow_up=4.0)
    """
    _, b, _ = _spectrum(A, V, cov)
    low, high, size = float(b.min()), float(b.max()), float(np.abs(b).max())
    if high > TOLERANCE * size:
        return GaussianSteps(-1 / low if low < -TOLERANCE * size else math.inf, 0.0)
    return GaussianSteps(math.inf, math.inf) if not low < 0 else GaussianSteps(-1 / low, -2 / low)


def _spectrum(A: ArrayLike, V: float | None, cov: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the square root of cov, and the eigenvalues and eigenvectors of `v cov^{1/2} A cov^{1/2}`."""
    A, cov = _matrices(A, cov)
    v = np.asarray(as_float("V", 1.0 if V is None else V, (0, 2)))
    if v.ndim:
        raise ValueError(f"V must be a number for this closed form, got {shown(V)}: run the layers instead")
    if not _same(A, A.T):
        raise ValueError("A must be symmetric for this closed form: run the layers instead")
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    b, U = np.linalg.eigh(number("V", float(v)) * root @ A @ root)
    return root, b, U
