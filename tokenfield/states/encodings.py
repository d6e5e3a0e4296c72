"""Positional encodings: vectors that are added to tokens before the first layer."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import count, positive
from .._memory import refuse_large


def sinusoidal(n: int, d: int, theta: float = 10_000.0) -> Float[Array, "n d"]:
    """Return the sinusoidal encodings of positions 0, …, n-1 in R^d, to be added to tokens (Vaswani et al. 2017, §3.5).

    `e_{s,2i} = sin(s theta^{-2i/d})`, `e_{s,2i+1} = cos(s theta^{-2i/d})`. For even d every encoding has length `sqrt(d/2)`.

    Args:
        n: number of positions.
        d: dimension of the tokens.
        theta: wavelengths grow from `2 pi` to nearly `2 pi theta`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.gaussian_tokens(8, 4, seed=0).with_encoding(tkf.sinusoidal(8, 4))
        Tokens(n=8, d=4)
    """
    n, d, theta = count("n", n), count("d", d), positive("theta", theta)
    refuse_large("n, d", n, d)
    column = np.arange(d)
    angles = np.arange(n)[:, None] * theta ** (-(column - column % 2) / d)
    return jnp.asarray(np.where(column % 2 == 0, np.sin(angles), np.cos(angles)))
