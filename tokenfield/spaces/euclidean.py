"""The space R^d."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from .base import AbstractBrownianSpace, lengths


class Euclidean(AbstractBrownianSpace):
    """R^d. Its points are sampled from the standard normal law.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0), space=tkf.Euclidean())
        Transformer(Softmax(beta=1.0), norm=NoNorm())
    """

    kind: ClassVar[str] = "euclidean"
    title: ClassVar[str] = "Euclidean space"

    def signs(self, d):
        return np.ones(d)

    def project(self, x):
        return x

    def tangent(self, x, v):
        return v

    def retract(self, x, v):
        return x + v

    def exp(self, x, v):
        return x + v

    def log(self, x, y):
        return y - x

    def distance(self, x, y):
        return lengths(x - y)

    def sample(self, xi):
        return xi

    def chart(self, x):
        return x

    def check(self, d):
        pass

    def brownian(self, xi, x, variance):
        return jnp.sqrt(variance) * xi

    def spectral_gap(self, d):
        return 0.0
