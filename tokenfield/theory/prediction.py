"""A table of theoretical predictions for a model, each with its formula and whether it applies."""

import math

import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float, count, number, positive
from .._shown import shown
from ..normalization import AbstractSphereNorm
from .names import MOST_DIMENSION, kernel_name, norm_rule
from .prediction_rows import TOPICS, Case, same
from .prediction_rows import Prediction as Prediction
from .prediction_table import Predictions as Predictions


def predict(
    n: int,
    d: int,
    beta: float | None,
    norm: str | AbstractSphereNorm = "post",
    attention: str = "softmax",
    *,
    A: ArrayLike | None = None,
    V: ArrayLike | None = None,
    R: float | None = None,
    rho0: float = 0.0,
    angle: float = 90.0,
    kappa: float | None = None,
    radius: float = 1.0,
    alpha: float | None = None,
    tau: float | None = None,
) -> Predictions:
    """Return the theoretical predictions for n tokens in R^d, without simulation (FORMULAS §6–§10).

    A prediction whose formula does not apply is still listed, with `valid=False` and the reason in its note.

    Args:
        n, d: number of tokens and their dimension.
        beta: inverse temperature, >= 0. It may be None when A is given.
        norm: "post", "pre", "peri", "mix" (needs tau), "ngpt" (takes alpha) or "sqrt", or a rule such as `PostLN()`.
        attention: "softmax" or "unnormalized".
        A, V: matrices for the Lipschitz bounds [beta I and I]; all other rows assume `A = beta I`, `V = I`, and are
            marked `valid=False` for other matrices.
        R: radius of the ball for the Lipschitz bounds [radius].
        rho0: cosine between tokens at the start.
        angle: degrees between the two clusters of a metastable pair.
        kappa: inverse noise, compared with the critical inverse noise.
        radius: length of the tokens at the start, for norms under which lengths grow (pre, peri).
        alpha: rate of nGPT [1].
        tau: time at which Mix-LN switches from Post-LN to Pre-LN.

    Returns:
        a sequence of rows `Prediction(key, name, value, formula, section, valid, note)`, also indexed by key.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.predict(n=32, d=64, beta=4.0)
        >>> found["time_to_collapse"].value, len(found), len(found.valid)
        (6.953501848809471, 14, 11)
    """
    n, d, rule = count("n", n), count("d", d, 2, MOST_DIMENSION), norm_rule(norm, alpha, tau)
    A, V = _matrix("A", A, d), _matrix("V", V, d)
    if beta is None:
        if A is None:
            raise ValueError("beta must be a number >= 0 when A is not given, got None")
        if A[0, 0] >= 0 and same(A, A[0, 0] * np.eye(d)):
            beta = float(A[0, 0])
    case = Case(
        n=n,
        d=d,
        beta=None if beta is None else positive("beta", beta, or_zero=True),
        norm=rule,
        attention=kernel_name(attention),
        A=A,
        V=V,
        R=positive("R", radius if R is None else R, or_zero=True),
        rho0=_rho0(rho0, n),
        angle=_angle(angle),
        kappa=None if kappa is None else positive("kappa", kappa),
        radius=positive("radius", radius),
    )
    scale = "none" if case.beta is None else f"{case.beta:g}"
    title = f"{case.attention}, {rule.kind or type(rule).__name__}, n = {n}, d = {d}, beta = {scale}"
    return Predictions([row for topic in TOPICS for row in topic(case)], title)


def _matrix(name: str, value: ArrayLike | None, d: int) -> np.ndarray | None:
    if value is None:
        return None
    matrix = np.asarray(as_float(name, value, (0, 2)))
    if matrix.ndim == 0:
        matrix = matrix * np.eye(d)
    if matrix.shape[1] != d or (name == "A" and matrix.shape[0] != d):
        rows = "dv" if name == "V" else d
        raise ValueError(f"{name} must have shape ({rows}, {d}) for tokens in R^{d}, got {matrix.shape}")
    return matrix


def _rho0(value: float, n: int) -> float:
    least = -1 / (n - 1) if n > 1 else -1.0
    if not least - 1e-12 <= number("rho0", value) < 1:
        raise ValueError(f"rho0 must lie in [-1/(n-1), 1) = [{least:.6g}, 1), got {shown(value)}")
    return float(value)


def _angle(degrees: float) -> float:
    degrees = number("angle", degrees)
    if not (0 < degrees < 180 and abs(math.cos(math.radians(degrees))) < 1):
        raise ValueError(f"angle must lie between 0 and 180 degrees, got {shown(degrees)}")
    return float(degrees)
