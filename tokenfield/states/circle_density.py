"""A density on the circle."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._check import count, generator
from ..spectral import CircleHarmonics
from .density import AbstractDensity, as_coefficients, checked, invert, perturbed_by, projected, smoothed
from .samplers import circle_tokens
from .tokens import Tokens


class CircleDensity(AbstractDensity):
    """A density on the circle by its Fourier series, `p = 1 + sqrt(2) sum_k (a_k cos k t + b_k sin k t)`.

    Args:
        coefficients: (2, modes + 1), a_k and b_k; a_0 = 1 is the mass.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.CircleDensity.uniform(modes=64).perturbed(seed=0)
        CircleDensity(modes=64)
    """

    coefficients: Float[Array, "*batch 2 k"]
    kind: ClassVar[str] = "circle_density"
    title: ClassVar[str] = "density on the circle"

    def __init__(self, coefficients: ArrayLike):
        self.coefficients = as_coefficients("CircleDensity", coefficients, (2, 3))
        self.coefficients = checked("CircleDensity", self.harmonics, self.coefficients)

    @property
    def harmonics(self):
        return CircleHarmonics(self.coefficients.shape[-1] - 1)

    def with_coefficients(self, c):
        return CircleDensity(c)

    @staticmethod
    def start(
        modes: int = 64,
        function: Callable | None = None,
        size: float | None = None,
        seed: int = 0,
        coefficients: ArrayLike | None = None,
    ) -> "CircleDensity":
        """Return `CircleDensity(coefficients)`, or the density of a function (or the uniform one), perturbed if `size` is given.

        Args:
            modes: number of modes.
            function: a function to which the density is proportional; uniform by default.
            size: size of a random perturbation; none by default.
            seed: random seed of the perturbation.
            coefficients: coefficients instead of a function, as for the class.
        """
        if coefficients is not None:
            return perturbed_by(CircleDensity(coefficients), size, seed)
        made = CircleDensity.uniform(modes) if function is None else CircleDensity.from_function(function, modes)
        return perturbed_by(made, size, seed)

    @staticmethod
    def uniform(modes: int = 64) -> "CircleDensity":
        """Return the uniform measure."""
        return CircleDensity(jnp.zeros((2, count("modes", modes, 1) + 1)).at[0, 0].set(1.0))

    @staticmethod
    def from_function(function, modes: int = 64) -> "CircleDensity":
        """Return the density proportional to a function of the angle."""
        angle = lambda x: np.arctan2(x[:, 1], x[:, 0])  # noqa: E731
        return CircleDensity(projected("CircleDensity", CircleHarmonics(count("modes", modes, 1)), function, angle))

    @staticmethod
    def from_tokens(tokens: Tokens, modes: int = 64, width: float = 0.1) -> "CircleDensity":
        """Return the density of tokens, each smoothed by a Gaussian of a width in radians."""
        return CircleDensity(smoothed(CircleHarmonics(count("modes", modes, 1)), tokens, width))

    def law(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mass between the angles 0 and t, and the density at t with respect to the angle."""
        a, b = np.sqrt(2) * np.asarray(self.coefficients)[:, 1:]
        z = np.exp(1j * np.asarray(t))
        mass, density = np.zeros_like(z), np.zeros_like(z)
        for k in range(self.modes, 0, -1):  # Horner's rule: sums of (a_k - i b_k) z^k
            wave = a[k - 1] - 1j * b[k - 1]
            mass, density = (mass + wave / k) * z, (density + wave) * z
        passed = t + mass.imag + (b / np.arange(1, self.modes + 1)).sum()
        return passed / (2 * np.pi), (1 + density.real) / (2 * np.pi)

    def angles(self, u: np.ndarray) -> np.ndarray:
        """Return the quantiles of the angle, in [0, 2 pi], at levels u in [0, 1]."""
        return self.quantile()(u)

    def quantile(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function `angles` for repeated use: the law at the knots is computed once."""
        knots = np.linspace(0, 2 * np.pi, 8 * (self.modes + 8) + 1)
        levels, wide = self.law(knots)[0], knots[1]

        def angles(u: np.ndarray) -> np.ndarray:
            u = np.asarray(u, float)
            start = knots[np.clip(np.searchsorted(levels, u) - 1, 0, len(knots) - 2)]

            def inside(s, i):
                value, slope = self.law(start[i] + s * wide)
                return value, wide * slope

            return start + wide * invert(inside, u, 0.0, 1.0, 1e-14 / wide)

        return angles

    def sample(self, n, seed):
        return circle_tokens(self.angles(generator(seed).uniform(size=count("n", n))))
