"""Brownian noise on the sphere."""

import jax.numpy as jnp
from jaxtyping import Array

from .._check import positive
from .base import AbstractNoise


class SphereNoise(AbstractNoise):
    """`dX = P(drift) dt + sqrt(2/kappa) dW` on the sphere (FORMULAS §10).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Unnormalized(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa=4.0))
    """

    kappa: Array

    def __init__(self, kappa):
        self.kappa = jnp.asarray(positive("kappa", kappa), float)
