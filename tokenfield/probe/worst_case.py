"""The worst tokens for the real weights of a head: up to which n the √n growth of theory holds in a trained model."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._check import count, positive
from ..lipschitz.growth import PowerLaw, fit_power_law
from ..theory.gap import score_gap
from .families import HeadWeights
from .layer_constant import HeadsDerivative, singular_values
from .scores import lower_bound_gamma


class WorstCase(NamedTuple):
    """Local constants at explicit adversarial tokens, against their number.

    Attributes:
        lengths: (l,) numbers of tokens.
        constants: (l,) local constants.
        lower, upper: (l,) proved bounds for one head without biases: the constant is at least `lower` at these tokens, and at
            most `upper` at any tokens in the ball.
        law: the fitted power of n.
        exponent: `R^2 g`: the constant grows like √n while n is well below `e^{R^2 g}`.
    """

    lengths: np.ndarray
    constants: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    law: PowerLaw
    exponent: float


class Extremes(NamedTuple):
    """`g = max_{|u|<=1} (|Au| - <u,Au>)`, its u and `Au/|Au|`, for `A = s K^T Q`; norms of A and OV; `max |OVe|`, e ⊥ Au."""

    gap: float
    u: np.ndarray
    first: np.ndarray
    A: float
    V: float
    across: float


def extremes(weights: HeadWeights, head: int) -> Extremes:
    """Return the quantities of a head for the bounds of FORMULAS §6, in the 2k dimensions on which its queries and keys depend."""
    Q, K = weights.Q[head], weights.K[head]
    basis = np.linalg.qr(np.concatenate([Q, K]).T)[0]  # (d, 2k): what is orthogonal to it changes no score
    A = weights.scaling * (K @ basis).T @ (Q @ basis)
    W = weights.O[head] @ weights.V[head]
    gap, u = score_gap(A, across=np.linalg.svd(W @ basis, full_matrices=False)[2][0])
    direction = A @ u
    first = basis @ (direction / np.linalg.norm(direction))
    across = np.linalg.norm(W - np.outer(W @ first, first), 2)
    return Extremes(gap, basis @ u, first, float(np.linalg.norm(A, 2)), float(np.linalg.norm(W, 2)), float(across))


def worst_case(
    weights: HeadWeights,
    head: int,
    R: float,
    lengths: Sequence[int] = (4, 16, 64, 256),
    *,
    whole: bool = False,
    rtol: float = 1e-4,
) -> WorstCase:
    """Return the local constant at `x_1 = R Au/|Au|`, all others `R u`, with the real `A = s K^T Q` of a head (FORMULAS §6).

    For one head without biases and positions it lies between `lower` and `upper` and grows like √n while n is well below
    `e^{R^2 g}`. With `whole`, the same tokens are given to the whole layer: all heads, biases, mask and positions as they
    are. Biases add terms to the scores that change sign with the tokens, so the tokens or their negatives are used, whichever
    give the larger constant. With rotary positions the scores depend on positions, and the √n is not a theorem. At single n the
    constant may be larger, if the first token attends to itself and to the others about equally.

    Args:
        weights: the attention weights of a block.
        head: the head whose A is used.
        R: radius of the ball, e.g. the length of the longest input token of attention.
        lengths: numbers of tokens.
        whole: differentiate the whole layer instead of the head.
        rtol: relative tolerance of each constant.

    Example:
        >>> from tokenfield.probe.worst_case import worst_case
        >>> worst_case(head_weights(loaded, 0), head=0, R=20.0).law.power  # doctest: +SKIP
    """
    if not 0 <= head < len(weights.Q):
        raise ValueError(f"head must be between 0 and {len(weights.Q) - 1}, got {head}")
    R, sizes = positive("R", R), np.array([count("lengths", n, 2) for n in lengths])
    found = extremes(weights, head)
    used = weights if whole else single(weights, head)
    constants = []
    for n in sizes:
        x = np.vstack([R * found.first, np.tile(R * found.u, (n - 1, 1))])
        tried = [singular_values(HeadsDerivative(used, sign * x), rtol) for sign in ((1, -1) if whole else (1,))]
        constants.append(max(float(each.values[0]) for each in tried))
    lower = [math.sqrt(n - 1) / (1 + (n - 1) * math.exp(-(R**2) * found.gap)) * found.across for n in sizes]
    upper = [found.V * (math.sqrt(n) * (1 + found.A * R**2) + found.A * R**2) for n in sizes]
    law = fit_power_law(sizes, constants)
    return WorstCase(sizes, np.array(constants), np.array(lower), np.array(upper), law, R**2 * found.gap)


def sharpest_head(weights: HeadWeights) -> int:
    """Return the head with the largest gamma of the lower bound (FORMULAS §6): there, one token can outscore another by most."""
    return int(np.argmax(lower_bound_gamma(weights)))


def single(weights: HeadWeights, head: int) -> HeadWeights:
    """Return one head alone, without biases and rotations: the attention of the theory."""
    one = slice(head, head + 1)
    parts = {name: getattr(weights, name)[one] for name in ("Q", "K", "V", "O")}
    none = {name: np.zeros_like(getattr(weights, name)[one]) for name in ("q", "k", "v")}
    return HeadWeights(**parts, **none, o=np.zeros_like(weights.o), scaling=weights.scaling, causal=weights.causal)
