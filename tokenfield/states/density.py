"""The interface of densities: smooth measures on a sphere, given by their coefficients in harmonics."""

import abc
from collections.abc import Callable
from typing import Any, Self, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._check import count, generator, is_concrete, positive
from .._shown import shown
from ..spaces import Sphere
from ..spectral import AbstractHarmonics
from .base import AbstractState
from .tokens import Tokens

D = TypeVar("D", bound="AbstractDensity")
NEGATIVE = 1e-9  # allowed negative values of a density, relative to its largest value


class AbstractDensity(AbstractState):
    """A probability density p on a sphere, with respect to the uniform probability: `p = sum_l c_l phi_l`, `c_0 = 1`."""

    coefficients: eqx.AbstractVar[Float[Array, "..."]]

    @property
    @abc.abstractmethod
    def harmonics(self) -> AbstractHarmonics:
        """The basis."""

    @staticmethod
    @abc.abstractmethod
    def start(*arguments: Any, **options: Any) -> "AbstractDensity":
        """Return a density from plain data: from coefficients, or a function or the uniform density, optionally perturbed."""

    @classmethod
    def maker(cls):
        return cls.start

    @abc.abstractmethod
    def with_coefficients(self, c: Float[Array, "..."]) -> Self:
        """Return the density with other coefficients in the same basis."""

    @abc.abstractmethod
    def sample(self, n: int, seed: int) -> Tokens:
        """Return n independent tokens with this law."""

    def shown_arguments(self):
        given = self.arguments()
        c = given.pop("coefficients")
        if not np.ndim(c):  # no coefficients, as in a tree of axes for vmap
            return {"coefficients": c} | given
        stacked = {"batch_shape": self.batch_shape} if self.batch_shape else {}
        return stacked | {"modes": self.modes} | given

    @property
    def batch_shape(self):
        return self.coefficients.shape[: -len(self.harmonics.shape)]

    @property
    def modes(self) -> int:
        """The largest degree."""
        return self.coefficients.shape[-1] - 1

    @property
    def d(self) -> int:
        """The dimension of the space around the sphere."""
        return self.harmonics.d

    def density(self, x) -> np.ndarray:
        """Return p at points x (n, d) of the sphere; p = 1 for the uniform measure.

        Example:
            >>> import tokenfield as tkf
            >>> tkf.CircleDensity.uniform(8).density([[1.0, 0.0]])
            array([1.])
        """
        return np.asarray(self.harmonics.at(self.coefficients, jnp.asarray(x, float)))

    def perturbed(self, seed: int, size: float = 1e-3) -> Self:
        """Return the density plus random harmonics of all degrees, each of size `size / (1 + degree)`.

        Example:
            >>> import tokenfield as tkf
            >>> tkf.CircleDensity.uniform(modes=64).perturbed(seed=0)
            CircleDensity(modes=64)
        """
        basis, size = self.harmonics, positive("size", size)
        noise = generator(seed).standard_normal(basis.shape) * size / (1 + np.asarray(basis.degree)).clip(1)
        rough = self.coefficients + np.where(np.asarray(basis.degree) > 0, noise, 0) * np.exp(
            -36 * (np.asarray(basis.degree) / max(self.modes, 1)) ** 4
        )
        return self.with_coefficients(jnp.asarray(rough, float))

    def resized(self, modes: int) -> Self:
        """Return the same function with harmonics up to another degree."""
        modes = count("modes", modes, 1)
        return self.with_coefficients(self.harmonics.embed(self.coefficients, modes))

    def replaced(self, c: Float[Array, "*time l"] | Float[np.ndarray, "*time l"]) -> Self:
        """Return the density with other coefficients, unchecked: in a run, errors may make p negative where it vanishes."""
        return eqx.tree_at(lambda state: state.coefficients, self, c)

    @property
    def spectrum(self) -> Float[Array, " l"]:
        """Return the norm of the coefficients of each degree 0 … modes, relative to that of all."""
        c, degree = self.coefficients, jnp.asarray(self.harmonics.degree).astype(int)
        squares = jnp.zeros(self.modes + 1).at[degree].add(c**2)  # where there is no harmonic, c is 0
        part = squares / squares.sum()
        return jnp.where(part == 0, 0, jnp.sqrt(jnp.where(part == 0, 1, part)))  # differentiable at 0

    def unresolved(self, edge: float) -> Bool[Array, ""]:
        """Return True if the density needs more modes: degrees with size above `edge` reach the last one.

        "Reach" means within a tenth of the modes, or within the largest gap between degrees with size above `edge`
        (a density with k equal peaks has only degrees 0, k, 2k, …). Rounding errors fill the last degrees evenly, while those
        of a function decay: a tail of at most `100 edge` that does not decay is rounding, and needs no more modes.
        """
        size, degree = self.spectrum, jnp.arange(self.modes + 1)
        large = size > edge
        below = jax.lax.cummax(jnp.where(large, degree, 0))  # the largest such degree up to each one
        gap = jnp.where(large[1:], degree[1:] - below[:-1], 0).max(initial=0)
        width = max(0.1 * self.modes, 2)
        reaches = below[-1] + jnp.maximum(gap, width) > self.modes
        length = lambda low, high: jnp.sqrt((jnp.where((degree > low) & (degree <= high), size, 0.0) ** 2).sum())  # noqa: E731
        tail, before = length(self.modes - width, self.modes), length(self.modes - 2 * width, self.modes - width)
        rounding = (tail > edge) & (tail <= 100 * edge) & (3 * tail > before)
        return reaches & ~rounding


def perturbed_by(density: D, size: float | None, seed: int) -> D:
    """Return the density, perturbed if a size is given."""
    return density if size is None else density.perturbed(seed, size)


def as_coefficients(name: str, coefficients: Any, axes: tuple[int, int]) -> Array:
    """Return coefficients as a float64 array with one of two numbers of axes; the larger is for states stacked along time."""
    try:
        c = jnp.asarray(coefficients, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: coefficients must be an array of numbers, got {shown(coefficients)}") from None
    if c.ndim not in axes or 0 in c.shape:
        raise ValueError(f"{name}: coefficients must have {axes[0]} axes, none of them empty, got shape {c.shape}")
    return c


def checked(name: str, basis: AbstractHarmonics, c: Array) -> Array:
    """Return the coefficients; raise ValueError unless they are those of a probability density."""
    if not is_concrete(c):
        return c
    if c.shape[-len(basis.shape) :] != basis.shape or c.ndim != len(basis.shape):
        return c  # stacked along time: checked when it was made
    plain = np.asarray(c)
    if not np.isfinite(plain).all():
        raise ValueError(f"{name}: coefficients must be finite numbers")
    if abs(plain.flat[0] - 1) > 1e-12:
        raise ValueError(f"{name}: a density must have mass 1, got {shown(float(plain.flat[0]))}")
    with jax.ensure_compile_time_eval():  # inside jit too
        values = np.asarray(_values(basis, c))
    if values.min() < -NEGATIVE * max(values.max(), 1.0):
        raise ValueError(
            f"{name}: a density must not be negative, got a smallest value of {values.min():.3g}; too few modes for a narrow "
            "density also look like this"
        )
    return c


def projected(name: str, basis: AbstractHarmonics, function: Callable, coordinate: Callable = lambda x: x) -> Array:
    """Return coefficients of a function of points, or of a coordinate of them, normalized to mass 1. Its values may be traced."""
    with jax.ensure_compile_time_eval():
        nodes = np.asarray(basis.nodes)
    if not callable(function):
        raise ValueError(f"{name}: function must be a function, got {shown(function)}")
    values = function(coordinate(nodes))
    values = np.asarray(values) if is_concrete(values) else values
    real = values.shape == (len(nodes),) and values.dtype.kind in "biuf"
    if not real or (is_concrete(values) and not np.isfinite(values).all()):
        got = f"shape {values.shape}, dtype {values.dtype}"
        raise ValueError(f"{name}: function must give one finite number for each point, got {got}")
    if is_concrete(values) and values.min() < 0:
        raise ValueError(f"{name}: a density must not be negative, got {float(values.min()):.3g}")
    c = _coefficients(basis, jnp.asarray(values, float))
    mass = c.reshape(-1)[0]
    if is_concrete(mass) and not mass > 0:
        raise ValueError(f"{name}: a density must have a positive mass, got {shown(float(mass))}")
    return c / mass


@eqx.filter_jit
def _values(basis: AbstractHarmonics, c: Array) -> Array:
    return basis.values(c)


@eqx.filter_jit
def _coefficients(basis: AbstractHarmonics, values: Array) -> Array:
    return basis.coefficients(values)


def smoothed(basis: AbstractHarmonics, tokens: Tokens, width: float) -> Array:
    """Return coefficients of tokens spread by Brownian motion on the sphere: degree l times `e^{-l(l+d-2) width^2/2}`."""
    if tokens.d != basis.d or not isinstance(tokens.space, Sphere):
        raise ValueError(f"tokens must be unit vectors in R^{basis.d}, got tokens in R^{tokens.d}")
    c = basis.moments(tokens.x, tokens.weights) * jnp.exp(-basis.laplacian * positive("width", width) ** 2 / 2)
    return c / c.reshape(-1)[0]


def invert(
    law: Callable[[np.ndarray, np.ndarray], tuple], u: np.ndarray, low: float, high: float, error: float = 1e-14
) -> np.ndarray:
    """Return the points at which increasing functions take the values u. `law(x, k)` returns function number k and its slope at x.

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
