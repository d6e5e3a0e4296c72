"""How many directions the tokens use."""

import numpy as np

from ..states import Tokens


def effective_rank(state: Tokens, centred: bool = False) -> float:
    """`exp(H(p))`, p the normalised singular values of the weighted token matrix (Roy and Vetterli 2007).

    1 when all tokens are on one line through 0, min(n, d) when they fill the space evenly.

    Args:
        centred: subtract the mean first: the rank of the spread rather than of the tokens.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.effective_rank(tkf.equiangular_tokens(rho=0.0, n=5))
    """
    x, w = np.asarray(state.x), np.asarray(state.weights)
    if centred:
        x = x - w @ x
    values = np.linalg.svd(np.sqrt(w)[:, None] * x, compute_uv=False)
    if values[0] == 0:
        return 0.0
    p = values[values > 0] / values.sum()
    return float(np.exp(-(p * np.log(p)).sum()))
