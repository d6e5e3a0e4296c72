"""Brownian noise in any space of the tokens."""

from typing import ClassVar

from jaxtyping import Array

from .._check import positive_number
from .._types import Number
from ..spaces import AbstractBrownianSpace
from .base import AbstractNoise


class AbstractBrownian(AbstractNoise):
    """Brownian motion of every token, independent or common to all."""

    def displacement(self, xi, x, h, space):
        return space.brownian(xi, x, 2 * h / self.kappa)

    def rate(self, x, space):
        return space.spectral_gap(x.shape[-1]) / self.kappa

    def check(self, d):
        pass


class BrownianNoise(AbstractBrownian):
    """`dX_i = P(drift) dt + sqrt(2/kappa) dW_i`, independent Brownian motions W_i in the space of the tokens.

    The generator of the noise is `(1/kappa) Δ`. On the sphere it is `SphereNoise`, in R^d `EuclideanNoise`; on the torus every
    angle has its own Brownian motion, and in hyperbolic space of dimension m, `E cosh dist(X(t), X(0)) = e^{mt/kappa}` without
    drift.

    Args:
        kappa: inverse strength of the noise.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=2.0), space=tkf.Torus(), noise=tkf.BrownianNoise(kappa=8.0))
        >>> tkf.simulate(model, tkf.tokens_in(tkf.Torus(), n=64, d=4, seed=0), t1=1.0, seed=1)
        Trajectory(time 101, coordinate 4, token 64; until t = 1; events: none)
    """

    kappa: Array
    kind: ClassVar[str] = "brownian"
    title: ClassVar[str] = "Brownian motion in the space of the tokens"
    space: ClassVar = AbstractBrownianSpace

    def __init__(self, kappa: Number):
        self.kappa = positive_number("kappa", kappa)

    def draws(self, n, d):
        return n, d
