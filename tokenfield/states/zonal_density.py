"""An axisymmetric density on the sphere of any dimension."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._check import count, generator
from ..spectral import ZonalHarmonics
from ..spectral.gegenbauer import polynomials
from .density import AbstractDensity, as_coefficients, checked, invert, perturbed_by, projected, smoothed
from .tokens import Tokens


class ZonalDensity(AbstractDensity):
    """A density on the sphere of R^d that depends on `t = <x, e>` alone, e the last axis: `p = sum_l c_l phi_l(t)`.

    phi_l is the Gegenbauer polynomial of degree l, orthonormal for the law of t under the uniform probability.

    Args:
        coefficients: (modes + 1,), c_l; c_0 = 1 is the mass.
        d: dimension of the tokens, at least 2.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.ZonalDensity.uniform(modes=32, d=5).perturbed(seed=0)
        ZonalDensity(modes=32, d=5)
    """

    coefficients: Float[Array, "*batch l"]
    dimension: int = eqx.field(static=True)
    kind: ClassVar[str] = "zonal_density"
    title: ClassVar[str] = "zonal density"

    def __init__(self, coefficients: ArrayLike, d: int):
        self.dimension = count("d", d, 2)
        self.coefficients = as_coefficients("ZonalDensity", coefficients, (1, 2))
        self.coefficients = checked("ZonalDensity", self.harmonics, self.coefficients)

    @property
    def harmonics(self):
        return ZonalHarmonics(self.coefficients.shape[-1] - 1, self.dimension)

    def with_coefficients(self, c):
        return ZonalDensity(c, self.dimension)

    @staticmethod
    def start(
        modes: int = 64,
        d: int = 3,
        function: Callable | None = None,
        size: float | None = None,
        seed: int = 0,
        coefficients: ArrayLike | None = None,
    ) -> "ZonalDensity":
        """Return `ZonalDensity(coefficients, d)`, or the density of a function (or the uniform one), perturbed if `size` is given.

        Args:
            modes: number of modes.
            d: dimension of the R^d around the sphere.
            function: a function to which the density is proportional; uniform by default.
            size: size of a random perturbation; none by default.
            seed: random seed of the perturbation.
            coefficients: coefficients instead of a function, as for the class.
        """
        if coefficients is not None:
            return perturbed_by(ZonalDensity(coefficients, d), size, seed)
        made = ZonalDensity.uniform(modes, d) if function is None else ZonalDensity.from_function(function, modes, d)
        return perturbed_by(made, size, seed)

    @staticmethod
    def uniform(modes: int = 64, d: int = 3) -> "ZonalDensity":
        """Return the uniform measure."""
        return ZonalDensity(jnp.zeros(count("modes", modes, 1) + 1).at[0].set(1.0), d)

    @staticmethod
    def from_function(function, modes: int = 64, d: int = 3) -> "ZonalDensity":
        """Return the density proportional to a function of `t = <x, e>` in [-1, 1]."""
        basis = ZonalHarmonics(count("modes", modes, 1), count("d", d, 2))
        return ZonalDensity(projected("ZonalDensity", basis, function, lambda x: x[:, -1]), d)

    @staticmethod
    def from_tokens(tokens: Tokens, modes: int = 64, width: float = 0.1) -> "ZonalDensity":
        """Return the density of tokens, rotated uniformly about the last axis and spread to a width in radians."""
        return ZonalDensity(smoothed(ZonalHarmonics(count("modes", modes, 1), tokens.d), tokens, width), tokens.d)

    def sample(self, n, seed):
        d, rng = self.dimension, generator(seed)
        t = heights(np.asarray(self.coefficients), d, rng.uniform(size=count("n", n)))
        rest = rng.standard_normal((n, d - 1))
        rest *= np.sqrt(1 - t**2)[:, None] / np.linalg.norm(rest, axis=1, keepdims=True)
        return Tokens(np.concatenate([rest, t[:, None]], axis=1))


def heights(c: np.ndarray, d: int, u: np.ndarray) -> np.ndarray:
    """Return the quantiles of t at levels u, under a zonal density with coefficients c.

    The angle arccos t has a density proportional to `p(t) sin^{d-2}`: integrated by Gauss–Legendre panels between fine
    knots, and inverted by bisection inside a panel.
    """
    modes = len(c) - 1
    knots = np.linspace(0, np.pi, 4 * (modes + 8) + 1)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    law = lambda a: (polynomials(np.cos(a).ravel(), modes + 1, d)[0] @ c).reshape(a.shape) * np.sin(a) ** (d - 2)  # noqa: E731

    def partial(start, end):
        half = (end - start)[:, None] / 2
        return (law(start[:, None] + half * (nodes + 1)) * weights * half).sum(1)

    total = np.concatenate([[0.0], np.cumsum(partial(knots[:-1], knots[1:]))])
    u = (1 - u) * total[-1]
    k = np.clip(np.searchsorted(total, u) - 1, 0, len(knots) - 2)
    wide = knots[1] - knots[0]

    def inside(s, i):
        start = knots[k[i]]
        return partial(start, start + s * wide), wide * law(start + s * wide)

    return np.cos(knots[k] + wide * invert(inside, u - total[k], 0.0, 1.0))
