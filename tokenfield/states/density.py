"""What a density is: a smooth measure on a sphere, by its coefficients in harmonics."""

import abc
from collections.abc import Callable
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import count, generator, is_concrete, positive
from ..spectral import AbstractHarmonics
from .tokens import Tokens

NEGATIVE = 1e-9  # a density may fall so far below 0, relative to its largest value


class AbstractDensity(eqx.Module):
    """A probability density p on a sphere, with respect to the uniform probability: `p = sum_l c_l phi_l`, `c_0 = 1`."""

    coefficients: eqx.AbstractVar[Float[Array, "..."]]

    @property
    @abc.abstractmethod
    def harmonics(self) -> AbstractHarmonics:
        """The basis."""

    @abc.abstractmethod
    def with_coefficients(self, c: Float[Array, "..."]) -> Self:
        """Another density in the same basis."""

    @abc.abstractmethod
    def sample(self, n: int, seed: int) -> Tokens:
        """n independent tokens with this law."""

    @property
    def modes(self) -> int:
        """The largest degree."""
        return self.coefficients.shape[-1] - 1

    @property
    def d(self) -> int:
        """The dimension of the space around the sphere."""
        return self.harmonics.d

    def density(self, x) -> np.ndarray:
        """p at points x (n, d) of the sphere; it is 1 for the uniform measure.

        Example:
            >>> import tokenfield as tkf
            >>> tkf.CircleDensity.uniform(8).density([[1.0, 0.0]])
        """
        return np.asarray(self.harmonics.at(self.coefficients, jnp.asarray(x, float)))

    def perturbed(self, seed: int, size: float = 1e-3) -> Self:
        """The density plus random harmonics of all degrees, each of size `size / (1 + degree)`.

        Example:
            >>> import tokenfield as tkf
            >>> tkf.CircleDensity.uniform(modes=64).perturbed(seed=0)
        """
        basis, size = self.harmonics, positive("size", size)
        noise = generator(seed).standard_normal(basis.shape) * size / (1 + np.asarray(basis.degree)).clip(1)
        rough = self.coefficients + np.where(np.asarray(basis.degree) > 0, noise, 0) * np.exp(
            -36 * (np.asarray(basis.degree) / max(self.modes, 1)) ** 4
        )
        return self.with_coefficients(jnp.asarray(rough, float))

    def resized(self, modes: int) -> Self:
        """The same function with harmonics up to another degree."""
        modes = count("modes", modes, 1)
        return self.with_coefficients(self.harmonics.embed(self.coefficients, modes))

    @property
    def tail(self) -> Float[Array, ""]:
        """Size of the highest degrees (the last tenth, at least two): small when the density is resolved."""
        degree = self.harmonics.degree
        last = degree > min(0.9 * self.modes, self.modes - 2)
        return jnp.sqrt((jnp.where(last, self.coefficients, 0.0) ** 2).sum() / (self.coefficients**2).sum())


def checked(name: str, basis: AbstractHarmonics, c: Array) -> Array:
    """Coefficients, or a ValueError unless they are those of a probability density."""
    if not is_concrete(c):
        return c
    if c.shape[-len(basis.shape) :] != basis.shape or c.ndim != len(basis.shape):
        return c  # stacked along time: checked when it was made
    plain = np.asarray(c)
    if not np.isfinite(plain).all():
        raise ValueError(f"{name}: coefficients must be finite numbers")
    if abs(plain.flat[0] - 1) > 1e-12:
        raise ValueError(f"{name}: a density must have mass 1, got {float(plain.flat[0])!r}")
    values = np.asarray(_values(basis, c))
    if values.min() < -NEGATIVE * max(values.max(), 1.0):
        raise ValueError(
            f"{name}: a density must not be negative, got a smallest value of {values.min():.3g}; too few modes for a narrow "
            "density also look like this"
        )
    return c


def projected(name: str, basis: AbstractHarmonics, function: Callable) -> Array:
    """Coefficients of a function of points, normalised to mass 1."""
    nodes = np.asarray(basis.nodes)
    values = np.asarray(function(nodes), float)
    if values.shape != (len(nodes),) or not np.isfinite(values).all():
        raise ValueError(f"{name}: function must give one finite number for each point, got shape {values.shape}")
    if values.min() < 0:
        raise ValueError(f"{name}: a density must not be negative, got {float(values.min()):.3g}")
    c = np.asarray(_coefficients(basis, jnp.asarray(values, float)))
    mass = float(c.flat[0])
    if not mass > 0:
        raise ValueError(f"{name}: a density must have a positive mass, got {mass!r}")
    return jnp.asarray(c / mass, float)


@eqx.filter_jit
def _values(basis: AbstractHarmonics, c: Array) -> Array:
    return basis.values(c)


@eqx.filter_jit
def _coefficients(basis: AbstractHarmonics, values: Array) -> Array:
    return basis.coefficients(values)


def smoothed(basis: AbstractHarmonics, tokens: Tokens, width: float) -> Array:
    """Coefficients of tokens spread by Brownian motion on the sphere: degree l times `e^{-l(l+d-2) width^2/2}`."""
    if tokens.d != basis.d or not tokens.on_sphere():
        raise ValueError(f"tokens must be unit vectors in R^{basis.d}, got tokens in R^{tokens.d}")
    c = basis.moments(tokens.x, tokens.weights) * jnp.exp(-basis.laplacian * positive("width", width) ** 2 / 2)
    return c / c.reshape(-1)[0]


def invert(
    law: Callable[[np.ndarray, np.ndarray], tuple], u: np.ndarray, low: float, high: float, error: float = 1e-14
) -> np.ndarray:
    """Where increasing functions take the values u. `law(x, k)` gives function number k and its slope at x.

    Newton's method, with bisection where it would leave the bracket, to an error relative to the bracket.
    """
    a, b = np.full_like(u, low), np.full_like(u, high)
    found, k = (a + b) / 2, np.arange(len(u))
    for _ in range(60):
        x = found[k]
        value, slope = law(x, k)
        below = value < u[k]
        a[k], b[k] = np.where(below, x, a[k]), np.where(below, b[k], x)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = x - (value - u[k]) / slope
        found[k] = np.where((new >= a[k]) & (new <= b[k]), new, (a[k] + b[k]) / 2)
        k = k[np.abs(found[k] - x) > error * max(abs(low), abs(high))]
        if not len(k):
            break
    return found
