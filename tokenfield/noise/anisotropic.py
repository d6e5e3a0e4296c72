"""Noise that is stronger in some directions of R^d."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._check import as_float, positive_number
from .._types import Matrix, Number
from ..spaces import Sphere
from ..spaces.sphere import along_great_circle
from .base import AbstractNoise


class AnisotropicNoise(AbstractNoise):
    """`dX_i = P(drift) dt + sqrt(2/kappa) P_{X_i} S dB_i` on the sphere, S a (d, k) matrix, B_i independent in R^k.

    The equation is in the sense of Itô on the sphere: the noise has no tangent drift, and its generator is
    `(1/kappa) tr(P S S^T P ∇²f)` with the sphere's Hessian. In R^d this means the term `-(1/kappa) tr(P S S^T P) X dt` in
    addition to the Itô integral. (The Stratonovich equation would add the tangent drift `-(1/kappa) P S S^T X`; for S = I both
    are `SphereNoise`.) For tokens under `PostLN`.

    Args:
        kappa: inverse strength of the noise.
        S: (d, k) matrix that shapes the noise.

    Example:
        >>> import tokenfield as tkf
        >>> noise = tkf.AnisotropicNoise(kappa=4.0, S=[[1.0, 0.0], [0.0, 0.2]])
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), noise=noise)
        >>> tkf.simulate(model, tkf.uniform_sphere(16, 2, seed=0), t1=1.0, seed=1)
        Trajectory(time 101, coordinate 2, token 16; until t = 1; events: none)
    """

    kappa: Array
    S: Float[Array, "d k"]
    kind: ClassVar[str] = "anisotropic"
    title: ClassVar[str] = "anisotropic noise"
    space: ClassVar = Sphere

    def __init__(self, kappa: Number, S: Matrix):
        self.kappa = positive_number("kappa", kappa)
        self.S = as_float("S", S, 2)

    def draws(self, n, d):
        return n, self.S.shape[-1]

    def displacement(self, xi, x, h, space):
        return along_great_circle(x, space.tangent(x, jnp.sqrt(2 * h / self.kappa) * xi @ self.S.T))

    def rate(self, x, space):
        return (self.S**2).sum() / self.kappa

    def check(self, d):
        if self.S.shape[0] != d:
            raise ValueError(f"S must have shape ({d}, k) for tokens in R^{d}, got {self.S.shape}")
