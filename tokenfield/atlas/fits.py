"""Lines and powers fitted to measurements, with 95 % confidence intervals."""

import math
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95


class Fit(NamedTuple):
    """A fitted number and the half-width of its confidence interval."""

    value: float
    half: float

    @property
    def interval(self) -> str:
        return f"95 % interval ± {self.half:.1g}"


def coefficient(design: np.ndarray, y: np.ndarray, k: int) -> Fit:
    """The k-th coefficient of `y = design @ c` by least squares, errors independent and of one size (Student's t)."""
    from scipy.stats import t

    c, *_ = np.linalg.lstsq(design, y, rcond=None)
    free = len(y) - design.shape[1]
    variance = ((y - design @ c) ** 2).sum() / free
    half = t.ppf((1 + CONFIDENCE) / 2, free) * math.sqrt(variance * np.linalg.inv(design.T @ design)[k, k])
    return Fit(float(c[k]), float(half))


def slope(x: np.ndarray, y: np.ndarray) -> Fit:
    """The slope of a line; at least three points."""
    return coefficient(np.stack([np.ones_like(x, float), x], axis=1), np.asarray(y, float), 1)


def limit(x: np.ndarray, y: np.ndarray) -> Fit:
    """The value for `x -> oo` of a parabola in 1/x; at least four points."""
    return coefficient((x[:, None] / x[0]) ** -np.arange(3.0), np.asarray(y, float), 0)


def power(x: np.ndarray, y: np.ndarray) -> Fit:
    """p in `y = C x^p e^{c/x}`, a power law for large x with its first correction; at least four points."""
    design = np.stack([np.ones_like(x), np.log(x), x[0] / x], axis=1)
    return coefficient(design, np.log(y), 1)
