"""Brownian noise on the sphere, independent for each token."""

from typing import ClassVar

from jaxtyping import Array

from .._check import positive_number
from .._types import Number
from ..spaces import Sphere
from .brownian import AbstractBrownian


class SphereNoise(AbstractBrownian):
    """`dX_i = P(drift) dt + sqrt(2/kappa) dW_i` with independent Brownian motions W_i on the sphere (FORMULAS §10).

    In R^d (Itô): `dX = [P drift - ((d-1)/kappa) X] dt + sqrt(2/kappa) P_X dB`. The generator of the noise is
    `(1/kappa) Δ`, so `E<X(t), X(0)> = e^{-(d-1)t/kappa}` without drift. For tokens under `PostLN`.

    Args:
        kappa: inverse strength of the noise.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Unnormalized(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa=4.0))
        >>> tkf.simulate(model, tkf.uniform_sphere(64, 3, seed=0), t1=1.0, seed=1)
        Trajectory(time 101, coordinate 3, token 64; until t = 1; events: none)
    """

    kappa: Array
    kind: ClassVar[str] = "sphere"
    title: ClassVar[str] = "Brownian motion on the sphere"
    space: ClassVar = Sphere

    def __init__(self, kappa: Number):
        self.kappa = positive_number("kappa", kappa)

    def draws(self, n, d):
        return n, d
