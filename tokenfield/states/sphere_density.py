"""A density on the 2-sphere."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._check import count, generator
from ..spectral import SphereHarmonics
from ..spectral.sphere import legendre_table
from .density import AbstractDensity, as_coefficients, checked, invert, perturbed_by, projected, smoothed
from .tokens import Tokens
from .zonal_density import heights


class SphereDensity(AbstractDensity):
    """A density on the 2-sphere by real spherical harmonics, orthonormal for the uniform probability.

    Args:
        coefficients: (2, modes + 1, modes + 1): cosines or sines of the longitude, order m, degree l (0 for l < m, and for
            the sines of order 0); [0, 0, 0] = 1 is the mass.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.SphereDensity.uniform(modes=16).perturbed(seed=0)
        SphereDensity(modes=16)
    """

    coefficients: Float[Array, "*batch 2 m l"]
    kind: ClassVar[str] = "sphere_density"
    title: ClassVar[str] = "density on the sphere"

    def __init__(self, coefficients: ArrayLike):
        self.coefficients = as_coefficients("SphereDensity", coefficients, (3, 4))
        self.coefficients = checked("SphereDensity", self.harmonics, self.coefficients)

    @property
    def harmonics(self):
        return SphereHarmonics(self.coefficients.shape[-1] - 1)

    def with_coefficients(self, c):
        return SphereDensity(c)

    @staticmethod
    def start(
        modes: int = 24,
        function: Callable | None = None,
        size: float | None = None,
        seed: int = 0,
        coefficients: ArrayLike | None = None,
    ) -> "SphereDensity":
        """Return `SphereDensity(coefficients)`, or the density of a function (or the uniform one), perturbed if `size` is given.

        Args:
            modes: number of modes.
            function: a function to which the density is proportional; uniform by default.
            size: size of a random perturbation; none by default.
            seed: random seed of the perturbation.
            coefficients: coefficients instead of a function, as for the class.
        """
        if coefficients is not None:
            return perturbed_by(SphereDensity(coefficients), size, seed)
        made = SphereDensity.uniform(modes) if function is None else SphereDensity.from_function(function, modes)
        return perturbed_by(made, size, seed)

    @staticmethod
    def uniform(modes: int = 24) -> "SphereDensity":
        """Return the uniform measure."""
        size = count("modes", modes, 1) + 1
        return SphereDensity(jnp.zeros((2, size, size)).at[0, 0, 0].set(1.0))

    @staticmethod
    def from_function(function, modes: int = 24) -> "SphereDensity":
        """Return the density proportional to a function of points x (n, 3)."""
        return SphereDensity(projected("SphereDensity", SphereHarmonics(count("modes", modes, 1)), function))

    @staticmethod
    def from_tokens(tokens: Tokens, modes: int = 24, width: float = 0.2) -> "SphereDensity":
        """Return the density of tokens, each spread by Brownian motion to a width in radians."""
        return SphereDensity(smoothed(SphereHarmonics(count("modes", modes, 1)), tokens, width))

    def sample(self, n, seed):
        rng, c = generator(seed), np.asarray(self.coefficients)
        u, v = rng.uniform(size=(2, count("n", n)))
        z = heights(c[0, 0], 3, u)
        waves = np.einsum("sml,mln->smn", c, legendre_table(self.modes, z))
        m = np.arange(1, self.modes + 1)[:, None]
        first, cosines, sines = waves[0, 0], waves[0, 1:], waves[1, 1:]

        def law(p, i):
            c, s, whole = np.cos(m * p), np.sin(m * p), 2 * np.pi * first[i]
            cdf = first[i] * p + ((cosines[:, i] * s + sines[:, i] * (1 - c)) / m).sum(0)
            return cdf / whole, (first[i] + (cosines[:, i] * c + sines[:, i] * s).sum(0)) / whole

        p, side = invert(law, v, 0.0, 2 * np.pi), np.sqrt(1 - z * z)
        return Tokens(np.stack([side * np.cos(p), side * np.sin(p), z], axis=1))
