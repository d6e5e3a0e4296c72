"""How many directions the tokens use."""

from functools import singledispatch

import numpy as np

from ..states import Gaussian, Tokens
from ..states.tokens import only_tokens


@singledispatch
def effective_rank(state: Tokens | Gaussian, centred: bool = False) -> float:
    """`exp(H(p))`, p the normalised singular values of the weighted token matrix (Roy and Vetterli 2007).

    1 when all tokens are on one line through 0, min(n, d) when they fill the space evenly.

    Args:
        centred: subtract the mean first: the rank of the spread rather than of the tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.effective_rank(tkf.equiangular_tokens(rho=0.0, n=5))
    """
    state = only_tokens("effective_rank", state)
    x, w = np.asarray(state.x), np.asarray(state.weights)
    if centred:
        x = x - w @ x
    return spread_over(np.linalg.svd(np.sqrt(w)[:, None] * x, compute_uv=False))


def spread_over(values: np.ndarray) -> float:
    """`exp(H(p))` of singular values in falling order, p their shares; 0 if all are 0."""
    if values[0] == 0:
        return 0.0
    p = values[values > 0] / values.sum()
    return float(np.exp(-(p * np.log(p)).sum()))
