"""Nearly equiangular tokens in few dimensions."""

import numpy as np

from .._check import count, generator, number
from .._kinds import named
from .._memory import refuse_large
from .tokens import Tokens


@named("start", "nearly_equiangular")
def nearly_equiangular(rho: float, n: int, d: int, seed: int = 0) -> Tokens:
    """Return n unit tokens `sqrt(rho) u + sqrt(1-rho) xi_i`, u the first axis, xi_i uniform on the unit sphere orthogonal to u.

    Cosines are `rho + (1-rho) s`, s of mean 0 and variance 1/(d-1): equal up to fluctuations, in any
    dimension (exactly equal ones need d >= n). The survey's long-context section has d of order log n.

    Args:
        rho: the mean cosine, in [0, 1].
        n: number of tokens.
        d: dimension, at least 2.
        seed: random seed of the xi_i.

    Example:
        >>> from tokenfield.states.near_equal import nearly_equiangular
        >>> nearly_equiangular(rho=0.3, n=1000, d=64, seed=0)
        Tokens(n=1000, d=64)
    """
    n, d, rho = count("n", n), count("d", d, 2), number("rho", rho, 0, 1)
    refuse_large("n, d", n, d)
    across = generator(seed).standard_normal((n, d - 1))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    return Tokens(np.concatenate([np.full((n, 1), np.sqrt(rho)), np.sqrt(1 - rho) * across], axis=1))
