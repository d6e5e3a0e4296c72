"""Causal layers that depend on positions only, fitted to a measured influence of positions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from .._check import count, positive, reals
from .response import token_influence

SMALLEST = 1e-6  # lower bound on alpha
STEEPEST = 50.0  # upper bound on the slope


class InfluenceFit(NamedTuple):
    """A fitted `token_influence`.

    Attributes:
        alpha: the weight of attention in a layer.
        slope: the slope lambda.
        influence: (n,) the fitted influence, which sums to 1.
        error: root mean square of `log(measured / fitted)` over positions.
        flat: the error of a reference curve without theory: one share for the last token, equal shares for all others.
    """

    alpha: float
    slope: float
    influence: np.ndarray
    error: float
    flat: float


def fit_influence(influence: ArrayLike, depth: int, *, slope: float | None = None) -> InfluenceFit:
    """Fit `token_influence` to the measured influence of n tokens on the last, by least squares of its logarithm.

    Args:
        influence: (n,) positive numbers, divided by their sum before the fit.
        depth: the number of layers L.
        slope: lambda, if it is known, so that alpha is the only parameter. None fits both.

    Example:
        >>> import tokenfield as tkf
        >>> measured = tkf.theory.token_influence(64, depth=6, alpha=0.2, slope=1.5)
        >>> tkf.theory.fit_influence(measured, depth=6).slope
        1.5000000000000009
    """
    (given,), L = reals(influence=influence), count("depth", depth)
    if given.ndim != 1 or len(given) < 4 or not (given > 0).all():
        raise ValueError(f"influence must be a vector of at least 4 positive numbers, got shape {given.shape}")
    n, measured = len(given), np.log(given / given.sum())
    fixed = None if slope is None else positive("slope", slope, or_zero=True)

    def residual(p: np.ndarray) -> np.ndarray:
        return np.log(token_influence(n, L, p[0], slope=p[1] if fixed is None else fixed)) - measured

    start = 1 - np.exp(measured[-1] / L)  # (1-alpha)^L is the share of the last token
    options = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    if fixed is None:
        found = least_squares(residual, [start, 1.0], bounds=([SMALLEST, 0], [1, STEEPEST]), **options)
    else:
        found = least_squares(residual, [start], bounds=([SMALLEST], [1]), **options)
    alpha, lam = float(found.x[0]), float(found.x[1]) if fixed is None else fixed
    error = float(np.sqrt((found.fun**2).mean()))
    flat = float(np.sqrt(((measured[:-1] - measured[:-1].mean()) ** 2).sum() / n))
    return InfluenceFit(alpha, lam, token_influence(n, L, alpha, slope=lam), error, flat)
