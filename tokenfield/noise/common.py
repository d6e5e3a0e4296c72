"""One Brownian motion that moves all tokens."""

from typing import ClassVar

from jaxtyping import Array

from .._check import positive_number
from .._types import Number
from ..spaces import Sphere
from .brownian import AbstractBrownian


class CommonNoise(AbstractBrownian):
    """`dX_i = P(drift) dt + sqrt(2/kappa) P_{X_i} ∘ dB` with the same Brownian motion B of R^d for all tokens.

    In Itô form the same correction `-((d-1)/kappa) X_i` appears as for `SphereNoise` (the difference of Itô and Stratonovich
    has no tangent part), so the noise of each single token has the same law as `SphereNoise`. The joint law differs: tokens at
    one point stay together, and without drift tokens cluster, since at each time dB moves all of them toward one point of the
    sphere. For tokens under `PostLN`.

    Args:
        kappa: inverse strength of the noise.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), noise=tkf.CommonNoise(kappa=4.0))
        >>> tkf.simulate(model, tkf.uniform_sphere(64, 3, seed=0), t1=1.0, seed=1)
        Trajectory(time 101, coordinate 3, token 64; until t = 1; events: none)
    """

    kappa: Array
    kind: ClassVar[str] = "common"
    title: ClassVar[str] = "common noise"
    space: ClassVar = Sphere

    def __init__(self, kappa: Number):
        self.kappa = positive_number("kappa", kappa)

    def draws(self, n, d):
        return 1, d
