"""The effect of a head on a density on a sphere: tokens move with velocity `f ∇g`, where f and g are functions on the sphere.

Attention with the kernel `phi(beta<x,y>)` and V = v moves tokens with `v P_x ∫ phi(beta<x,y>) y dmu = ∇g`,
`g = v ∫ F(<x,y>) dmu`, `F(u)' = phi(beta u)`. A convolution with a zonal function multiplies the harmonics of degree l by a
number, so g is known from the coefficients of the density. A normalized kernel divides by `N = ∫ phi(beta<x,y>) dmu`:
`f = 1/N`. For phi = exp, `∇g/N` is a gradient itself, that of `v log(N)/beta`, and f = 1.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..attention import AbstractAttention, AbstractHead, AbstractPairwise, ReLU, heads_and_outputs
from ..spectral import AbstractHarmonics, kernel_multipliers, multipliers

SMOOTH_POWER = (
    4  # power of ReLU: from about here on the last multipliers, which fall like `l^{-power - d/2}`, are below SMOOTH
)
SMOOTH = 1e-13  # bound on the last multipliers that are computed, relative to the largest


class AbstractDensityHead(eqx.Module):
    """The effect of one head on a density."""

    @abc.abstractmethod
    def potential(self, basis: AbstractHarmonics, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the coefficients of g; that of degree 0 does not matter."""

    @abc.abstractmethod
    def factor(self, basis: AbstractHarmonics, y: Float[Array, "..."]) -> Float[Array, " N"] | None:
        """Return f at the nodes; None for 1."""

    @property
    @abc.abstractmethod
    def response(self) -> Float[Array, " k"]:
        """Return, for each degree, the factor from a small mode of the uniform density to the mode of `f g`."""


class ExponentialHead(AbstractDensityHead):
    """Softmax: `N = w_0 (1 + beta h)`, `h = sum_{l>0} w_l/(beta w_0) c_l phi_l`; `g = v log(1 + beta h)/beta`, also at beta = 0."""

    ratios: Float[Array, " k"]
    beta: Float[Array, ""]
    speed: Float[Array, ""]

    def potential(self, basis, y):
        h = basis.values(at_degrees(basis, self.ratios) * y)
        return self.speed * basis.coefficients(log1p_ratio(self.beta, h))

    def factor(self, basis, y):
        return None

    @property
    def response(self):
        return self.speed * self.ratios


class PlainHead(AbstractDensityHead):
    """A kernel that is not normalized: g is linear in the density."""

    kernel: Float[Array, " k"]

    def potential(self, basis, y):
        return at_degrees(basis, self.kernel) * y

    def factor(self, basis, y):
        return None

    @property
    def response(self):
        return self.kernel


class QuotientHead(AbstractDensityHead):
    """A normalized kernel that is not an exponential: `f = 1/N`."""

    kernel: Float[Array, " k"]
    mass: Float[Array, " k"]
    """The multipliers of phi itself: N has the coefficients `mass_l c_l`."""

    def potential(self, basis, y):
        return at_degrees(basis, self.kernel) * y

    def factor(self, basis, y):
        return 1 / basis.values(at_degrees(basis, self.mass) * y)

    @property
    def response(self):
        return self.kernel / self.mass[0]


def speeds(attention: AbstractAttention) -> list[tuple[AbstractHead, Array]]:
    """Return each head with the factor v of its value and output maps, in the time unit of the attention."""
    zero, one = jnp.zeros(()), jnp.ones((1, 1))
    unit = lambda head: jnp.exp(head.log_unit - attention.log_unit)  # noqa: E731
    return [(head, W(zero, head.value(zero, one))[0, 0] * unit(head)) for head, W in heads_and_outputs(attention)]


def density_heads(attention: AbstractAttention, d: int, modes: int) -> tuple[AbstractDensityHead, ...]:
    """Return the effect of each head on densities with harmonics up to degree `modes`."""
    return tuple(_density_head(head, speed, d, modes) for head, speed in speeds(attention))


def _density_head(head: AbstractHead, speed: Array, d: int, modes: int) -> AbstractDensityHead:
    assert isinstance(head, AbstractPairwise)
    if head.exponential and head.normalized:
        beta = _sharpness(head)
        return ExponentialHead(_multipliers(beta, d, modes)[1], beta, speed)
    mass, slope = head_multipliers(head, d, modes)
    return QuotientHead(speed * slope, mass) if head.normalized else PlainHead(speed * slope)


def head_multipliers(head: AbstractPairwise, d: int, modes: int) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return the multipliers of phi and of its integral F, up to a common factor if the head is normalized."""
    beta = _sharpness(head)
    if head.exponential:
        whole, ratios = _multipliers(beta, d, modes)
        scale = whole if head.normalized else whole * jnp.exp(jnp.abs(beta) - head.log_unit)
        return scale * (beta * ratios).at[0].set(1.0), scale * ratios
    # The multipliers of F in R^d are those of its derivative in R^{d+2}, one degree lower, divided by d (Funk-Hecke, by parts).
    slope = jnp.concatenate([jnp.zeros(1), _falling(head, beta, d + 2) / d])
    mass = _falling(head, beta, d)
    return _up_to(modes, mass), _up_to(modes, slope)


def _sharpness(head: AbstractPairwise) -> Array:
    zero = jnp.zeros(())
    return head.score.sharpness(zero, zero)


def _falling(head: AbstractPairwise, beta: Array, d: int) -> Float[Array, " k"]:
    """Return the multipliers of a head's kernel; raise ValueError if they do not fall, since higher degrees would be missed."""
    w = kernel_multipliers(head.phi, beta, d)
    if is_concrete(w):
        size = np.abs(np.asarray(w))
        last, most = size[-len(size) // 8 :].max(), size.max()
        if not last <= SMOOTH * most:
            if isinstance(head, ReLU):  # beta does not change the shape of its kernel
                reason, advice = (
                    f"the kernel of ReLU(power={head.power:g}) is not smooth at 0",
                    "a smooth kernel, Equiangular or",
                )
            else:
                reason, advice = (
                    f"{type(head).__name__} has too sharp a kernel for a density",
                    "a smaller beta, a smooth kernel, or",
                )
            raise ValueError(
                f"{reason}: its harmonics of degree {len(w) - 1} are still {last / most:.1e} of the largest. Use {advice} Tokens"
            )
    return w


def _up_to(modes: int, w: Float[Array, " k"]) -> Float[Array, " modes"]:
    return jnp.pad(w, (0, max(modes + 1 - len(w), 0)))[: modes + 1]


def at_degrees(basis: AbstractHarmonics, w: Float[Array, " k"]) -> Float[Array, "..."]:
    """Return for each coefficient the entry of w at its degree, and 0 where there is no harmonic."""
    return jnp.where(basis.degree >= 0, w[jnp.maximum(basis.degree, 0).astype(int)], 0.0)


_multipliers = eqx.filter_jit(multipliers)


def log1p_ratio(beta: Float[Array, ""], h: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return `log(1 + beta h)/beta`, also at beta = 0. If errors of h make `1 + beta h` negative, it is clipped to 1e-300."""
    z = beta * h
    small = jnp.abs(z) < 1e-2
    near, far = jnp.where(small, z, 0.0), jnp.where(small, 0.5, z)
    series = jnp.zeros_like(z)
    for k in range(9, 0, -1):  # log(1 + z)/z = 1 - z/2 + z^2/3 - …
        series = 1 / k - near * series
    return jnp.where(small, h * series, jnp.log(jnp.maximum(1 + far, 1e-300)) / jnp.where(beta == 0, 1.0, beta))


def density_obstacle(attention: AbstractAttention) -> str | None:
    """Return why densities have no closed equation under an attention, or None."""
    for head in attention.heads:
        if not isinstance(head, AbstractPairwise):
            return f"it needs kernels that are functions of the score, got {type(head).__name__}"
        if head.uses_positions:
            return "a causal mask and rules for positions break the symmetry of the sphere"
        if not (head.score.autonomous and head.value.autonomous):
            return "it needs attention that does not change with time"
    constant = all(W.autonomous for _, W in heads_and_outputs(attention))
    if not (attention.isotropic and constant):
        return "it needs isotropic attention (beta, with V a number) that does not change with time"
    return None
