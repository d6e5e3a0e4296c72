"""Least-squares fits of lines and power laws, with 95 % confidence intervals."""

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
    """Return the k-th least-squares coefficient of `y = design @ c`, assuming i.i.d. errors (Student's t interval)."""
    from scipy.stats import t

    c, *_ = np.linalg.lstsq(design, y, rcond=None)
    free = len(y) - design.shape[1]
    variance = ((y - design @ c) ** 2).sum() / free
    half = t.ppf((1 + CONFIDENCE) / 2, free) * math.sqrt(variance * np.linalg.inv(design.T @ design)[k, k])
    return Fit(float(c[k]), float(half))


def slope(x: np.ndarray, y: np.ndarray) -> Fit:
    """Return the slope of a fitted line; needs at least three points."""
    return coefficient(np.stack([np.ones_like(x, float), x], axis=1), np.asarray(y, float), 1)


def limit(x: np.ndarray, y: np.ndarray) -> Fit:
    """Return the limit as `x -> oo` of a fitted parabola in 1/x; needs at least four points."""
    return coefficient((x[:, None] / x[0]) ** -np.arange(3.0), np.asarray(y, float), 0)


def power(x: np.ndarray, y: np.ndarray) -> Fit:
    """Return p in `y = C x^p e^{c/x}`, a power law for large x with a first correction; needs at least four points."""
    design = np.stack([np.ones_like(x), np.log(x), x[0] / x], axis=1)
    return coefficient(design, np.log(y), 1)
