"""Brownian noise on the sphere, independent for each token."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import positive_number
from .._types import Number
from .base import AbstractNoise, along_great_circle, tangent


class AbstractBrownian(AbstractNoise):
    """Brownian motion of every token on the sphere, whatever the tokens share."""

    on_sphere: ClassVar[bool] = True

    def displacement(self, xi, x, h):
        return brownian_step(xi, x, 2 * h / self.kappa)

    def rate(self, x):
        return (x.shape[-1] - 1) / self.kappa


class SphereNoise(AbstractBrownian):
    """`dX_i = P(drift) dt + sqrt(2/kappa) dW_i` with independent Brownian motions W_i on the sphere (FORMULAS §10).

    In R^d (Itô): `dX = [P drift - ((d-1)/kappa) X] dt + sqrt(2/kappa) P_X dB`. The generator of the noise is
    `(1/kappa) Δ`, so `E<X(t), X(0)> = e^{-(d-1)t/kappa}` without drift. For tokens under `PostLN`.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Unnormalized(beta=1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa=4.0))
        >>> tkf.simulate(model, tkf.uniform_sphere(64, 3, seed=0), t1=1.0, seed=1)
    """

    kappa: Array
    kind: ClassVar[str] = "sphere"
    title: ClassVar[str] = "Brownian motion on the sphere"

    def __init__(self, kappa: Number):
        self.kappa = positive_number("kappa", kappa)

    def draws(self, n, d):
        return n, d

    def check(self, d):
        pass


def brownian_step(xi: Float[Array, "#n d"], x: Float[Array, "n d"], variance: Array) -> Float[Array, "n d"]:
    """A step of Brownian motion on the sphere along great circles, of weak order 2 (exact in law on the circle).

    Great circles spread faster than the flat space in which xi was drawn: a length r should drift by
    `(d-2)(cot r - 1/r) ≈ -(d-2) r/3` relative to it, which shortens a step by `(d-2) variance/12`.
    """
    shorter = jnp.exp(-(x.shape[-1] - 2) * variance / 12)
    return along_great_circle(x, jnp.sqrt(variance) * shorter * tangent(x, xi))
