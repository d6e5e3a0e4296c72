"""Brownian noise in R^d."""

import jax.numpy as jnp
from jaxtyping import Array

from .._check import positive
from .base import AbstractNoise


class EuclideanNoise(AbstractNoise):
    """`dX = Gamma_mu(X) dt + sqrt(2/kappa) dB` in R^d (FORMULAS §5): a Gaussian's covariance gains `(2/kappa) I`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0, V=-1.0), noise=tkf.EuclideanNoise(kappa=4.0))
    """

    kappa: Array

    def __init__(self, kappa):
        self.kappa = jnp.asarray(positive("kappa", kappa), float)
