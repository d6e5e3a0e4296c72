"""Leaders of hardmax attention."""

import numpy as np
from numpy.typing import ArrayLike

from .._check import as_float
from ..states import Tokens
from ..states.tokens import only_tokens


def leaders(state: Tokens, A: ArrayLike | None = None, tol: float = 1e-9) -> np.ndarray:
    """Return the tokens that attend only to themselves: `<A x_i, x_i> > <A x_i, x_j>` for all tokens j elsewhere (FORMULAS §9).

    Hardmax layers with rule="self" never move leaders, and all other tokens end near some of them. Tokens at the same point as
    a leader are leaders too.

    Args:
        state: the tokens.
        A: (d, d) score matrix; the identity by default.
        tol: scores that differ by at most `tol` times their scale are ties; a token that ties with one elsewhere is not a leader.

    Returns:
        The indices of the leaders, in order.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.leaders(tkf.gaussian_tokens(50, 2, seed=0))
        array([ 6, 20, 23, 34, 37, 39, 49])
    """
    x = np.asarray(only_tokens("leaders", state).x)
    matrix = np.eye(state.d) if A is None else np.asarray(as_float("A", A, 2))
    if matrix.shape != (state.d, state.d):
        raise ValueError(f"A must have shape ({state.d}, {state.d}), got {matrix.shape}")
    q, found = x @ matrix.T, []
    scale = max(float(np.abs(x).max()), np.finfo(float).tiny)
    for i in range(state.n):
        scores = x @ q[i]
        elsewhere = np.abs(x - x[i]).max(axis=1) > tol * scale
        slack = tol * max(float(np.abs(scores).max()), np.finfo(float).tiny)
        if not elsewhere.any() or scores[i] > scores[elsewhere].max() + slack:
            found.append(i)
    return np.array(found, dtype=int)
