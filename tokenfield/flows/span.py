"""Isotropic flows stay in the span of the tokens: n tokens in R^d with d > n need only n coordinates."""

import jax.numpy as jnp
import numpy as np

from ..states import Tokens


def coordinates(tokens: Tokens) -> tuple[Tokens, np.ndarray]:
    """Tokens in an orthonormal basis of their span, and that basis: `x = coordinates @ basis`.

    Example:
        >>> import tokenfield as tkf
        >>> small, basis = coordinates(tkf.uniform_sphere(n=32, d=1024))
    """
    basis, triangular = np.linalg.qr(np.asarray(tokens.x).T)
    small = Tokens(jnp.asarray(triangular.T), tokens.weights, tokens.positions)
    return small, basis.T
