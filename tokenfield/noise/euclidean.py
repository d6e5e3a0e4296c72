"""Brownian noise in R^d."""

from typing import ClassVar

from jaxtyping import Array

from .._check import positive_number
from .._types import Number
from ..spaces import Euclidean
from .brownian import AbstractBrownian


class EuclideanNoise(AbstractBrownian):
    """`dX = Gamma_mu(X) dt + sqrt(2/kappa) dB` in R^d (FORMULAS §5): a Gaussian's covariance gains `(2/kappa) I`.

    Tokens have independent Brownian motions. For tokens without a norm.

    Args:
        kappa: inverse strength of the noise.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Transformer(tkf.Softmax(beta=1.0, V=-1.0), noise=tkf.EuclideanNoise(kappa=4.0))
        Transformer(Softmax(beta=1.0, V=-1.0), norm=NoNorm(), noise=EuclideanNoise(kappa=4.0))
    """

    kappa: Array
    kind: ClassVar[str] = "euclidean"
    title: ClassVar[str] = "Brownian motion"
    space: ClassVar = Euclidean

    def __init__(self, kappa: Number):
        self.kappa = positive_number("kappa", kappa)

    def draws(self, n, d):
        return n, d
