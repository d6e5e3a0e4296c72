"""Saddle-to-saddle dynamics in the limit of large beta: the closest pair of clusters moves, and all others are stationary."""

import math
from typing import NamedTuple

import numpy as np

from .._check import number
from ..spaces import Sphere
from ..states import Tokens
from ..states.tokens import only_tokens
from .names import kernel_name
from .pairs import _cosine, _masses


class SaddleMerge(NamedTuple):
    """One merge: two clusters with `masses`, at `cosine`, meet at `place`; `tokens` are the first token of each cluster.

    `exponent` is the limit of `log(T)/beta`: `1 - cosine`.
    """

    tokens: tuple[int, int]
    cosine: float
    masses: tuple[float, float]
    place: np.ndarray
    exponent: float


def saddle_to_saddle(tokens: Tokens, attention: str = "softmax") -> list[SaddleMerge]:
    """Return the merges of clusters on the sphere in the limit beta → ∞, exactly (FORMULAS §9).

    In time rescaled by the *current* inner product of the closest pair, `dt = e^{beta(1-rho)} ds`, only that pair moves:
    along its great circle, token i by a share `m_j^2/(m_i^2+m_j^2)` of the angle under softmax attention and
    `m_j/(m_i+m_j)` under unnormalized attention. It becomes one cluster of mass `m_i + m_j`, and so on. A merge takes
    infinite rescaled time.

    Args:
        tokens: distinct unit tokens with weights. If two pairs have the same largest cosine, the order of merges is undetermined,
            which raises ValueError.
        attention: "softmax" or "unnormalized".

    Example:
        >>> import tokenfield as tkf
        >>> merges = tkf.theory.saddle_to_saddle(tkf.circle_tokens([0.0, 0.5, 2.0]))
        >>> [(merge.tokens, merge.exponent) for merge in merges]
        [((0, 1), 0.12241743810962724), ((0, 2), 1.1782460556494923)]
    """
    softmax = kernel_name(attention) == "softmax"
    only_tokens("saddle_to_saddle", tokens)
    x, mass, first = np.array(tokens.x), np.array(tokens.weights), np.arange(tokens.n)
    if not isinstance(tokens.space, Sphere):
        raise ValueError("tokens must have length 1: normalize them first, e.g. with tokens.normalized()")
    steps = []
    while len(x) > 1:
        cosines = 1 - 0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)
        pairs = np.argsort(-cosines[np.triu_indices(len(x), 1)])
        rows, columns = np.triu_indices(len(x), 1)
        i, j = int(rows[pairs[0]]), int(columns[pairs[0]])
        cosine = float(cosines[i, j])
        if len(pairs) > 1 and cosine - cosines[rows[pairs[1]], columns[pairs[1]]] <= 1e-12:
            raise ValueError("two pairs of tokens are equally close: the limit does not say which of them moves first")
        if cosine <= -1 + 1e-12:
            raise ValueError("two antipodal clusters are stationary: they do not merge")
        share = mass[j] ** 2 / (mass[i] ** 2 + mass[j] ** 2) if softmax else mass[j] / (mass[i] + mass[j])
        place = _along(x[i], x[j], share)
        steps.append(
            SaddleMerge((int(first[i]), int(first[j])), cosine, (float(mass[i]), float(mass[j])), place, 1 - cosine)
        )
        x[i], mass[i] = place, mass[i] + mass[j]
        x, mass, first = np.delete(x, j, 0), np.delete(mass, j), np.delete(first, j)
    return steps


def pair_cosine(s: float, rho0: float, masses: tuple[float, float] = (0.5, 0.5)) -> float:
    """Return `rho(s) = tanh(k s + artanh rho0)`, `k = m_j/m_i + m_i/m_j`: the closest pair in rescaled time (FORMULAS §9).

    The clusters meet only as s → ∞, not at a finite rescaled time.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.pair_cosine(0.5, rho0=0.3)
        0.8641538087731915
    """
    a, b = _masses(masses)
    return math.tanh((a / b + b / a) * number("s", s) + math.atanh(_cosine("rho0", rho0)))


def _along(x: np.ndarray, y: np.ndarray, share: float) -> np.ndarray:
    """Return the point at a fraction `share` of the way from x to y on their great circle."""
    angle = 2 * math.asin(min(float(np.linalg.norm(x - y)) / 2, 1.0))
    if angle == 0:
        return x
    return (math.sin((1 - share) * angle) * x + math.sin(share * angle) * y) / math.sin(angle)
