"""Random sequences with the statistics of given ones: mean, covariance, and correlation by distance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from .._check import count, generator, items
from .._shown import shown
from ..states import Tokens
from .data_models import Sampler
from .local import tokens_of


def correlation_by_distance(sequences: Sequence[Any]) -> np.ndarray:
    """Return `c_k = sum_i <x_i - m, x_{i+k} - m> / sum_i |x_i - m|^2`: the correlation of tokens at distance k.

    Sums run over all sequences, and m is the mean of all tokens. The divisor is the same for all k, although there are fewer
    pairs at large distances. So a stationary sequence with these correlations exists: their Toeplitz matrix has no negative
    eigenvalue.

    Args:
        sequences: a list of sequences of tokens, (n, d) each, e.g. the hidden states of a few texts.

    Returns:
        c_0 = 1, c_1, … up to the length of the shortest sequence.

    Example:
        >>> import tokenfield as tkf
        >>> walk = tkf.lipschitz.data_model("correlated", d=8, correlation=0.9)(500, seed=0)
        >>> tkf.lipschitz.correlation_by_distance([walk])[:3].round(2)
        array([1.  , 0.91, 0.82])
    """
    parts = _arrays(sequences)
    mean = np.concatenate(parts).mean(0)
    length = min(map(len, parts))
    sums = np.zeros(length)
    for x in parts:
        gram = (x - mean) @ (x - mean).T
        sums += [np.trace(gram, k) for k in range(length)]
    if not sums[0] > 0:
        raise ValueError("sequences must hold tokens that differ: all of them are equal")
    return sums / sums[0]


def sequence_model(sequences: Sequence[Any], *, independent: bool = False) -> Sampler:
    """Return a sampler `(n, seed) -> Tokens` of Gaussian sequences with the statistics of given ones.

    `x_i = m + S g_i`, where m and S S^T are the mean and the covariance of all given tokens, and the coordinates of g are
    independent stationary Gaussian sequences with correlations `correlation_by_distance`, 0 beyond the shortest sequence.

    Args:
        sequences: a list of sequences of tokens, (n, d) each.
        independent: draw independent tokens with the same mean and covariance.

    Example:
        >>> import tokenfield as tkf
        >>> walk = tkf.lipschitz.data_model("correlated", d=8, correlation=0.9)(500, seed=0)
        >>> tkf.lipschitz.sequence_model([walk])(100, seed=0)
        Tokens(n=100, d=8)
    """
    parts = _arrays(sequences)
    tokens = np.concatenate(parts)
    mean = tokens.mean(0)
    root = scipy.linalg.svd((tokens - mean) / np.sqrt(len(tokens)), full_matrices=False)[1:]
    known = np.ones(1) if independent else correlation_by_distance(parts)

    def sample(n: int, seed: int = 0) -> Tokens:
        n = count("n", n)
        c = np.zeros(n)
        c[: len(known)] = known[:n]
        values, vectors = np.linalg.eigh(scipy.linalg.toeplitz(c))
        sizes, directions = root
        g = vectors * np.sqrt(np.maximum(values, 0)) @ generator(seed).standard_normal((n, len(sizes)))
        return Tokens(mean + (g * sizes) @ directions)

    return sample


def _arrays(sequences: Sequence[Any]) -> list[np.ndarray]:
    """Return the tokens of each sequence; raise ValueError unless all have the same dimension."""
    given = items("sequences", sequences, "tokens, (n, d) each")
    if isinstance(sequences, str):
        raise ValueError(f"sequences must be a list of tokens, (n, d) each, got {shown(sequences)}")
    if any(np.ndim(each) == 1 for each in given):
        raise ValueError("sequences must be a list of tokens, (n, d) each: give [x] for one sequence x")
    parts = [np.asarray(tokens_of(each).x) for each in given]
    if not parts or min(map(len, parts)) < 2 or len({part.shape[1] for part in parts}) != 1:
        raise ValueError(
            "sequences must be a non-empty list of tokens in one R^d, at least two in each sequence, got shapes "
            f"{[part.shape for part in parts]}"
        )
    return parts
