"""How a Transformer moves densities on a sphere: the mean-field equation, with or without noise."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..attention import Softmax, Unnormalized
from ..noise import SphereNoise
from ..normalization import PostLN
from ..spectral import AbstractHarmonics
from ..states import AbstractDensity, CircleDensity, SphereDensity, ZonalDensity
from ..theory.modes import first_clusters, log_multiplier
from ..transformer import Transformer
from .base import AbstractFlow, Segment, obstacle, prepare, require_closed, segments

KINDS = (CircleDensity, SphereDensity, ZonalDensity)
MOST_MODES = {CircleDensity: 2048, ZonalDensity: 1024, SphereDensity: 96}
GROWTH = {CircleDensity: 4, ZonalDensity: 4, SphereDensity: 2}  # each new resolution is compiled anew


class DensityFlow(AbstractFlow):
    """`∂_t p = -∇·(p ∇g) + (1/kappa) Δp` with `g = v Z/beta` (USA) or `v log(Z)/beta` (SA), `Z = ∫ e^{beta<x,y>} dmu`.

    As `∇·(p∇g) = (Δ(pg) + pΔg - gΔp)/2`, products of functions at nodes are all that is needed (FORMULAS §2, §10; the signs
    printed in the survey are reversed).
    """

    harmonics: AbstractHarmonics
    state: AbstractDensity
    kernel: Float[Array, "..."]
    """`w_l e^{-beta}` at each coefficient."""
    speed: Float[Array, ""]
    """`v/beta`, times `e^{beta - log_unit}` for USA."""
    decay: Float[Array, "..."]
    unit: Float[Array, ""]
    normalised: bool = eqx.field(static=True)

    def pack(self, state):
        return state.coefficients

    def unpack(self, y):
        return eqx.tree_at(lambda s: s.coefficients, self.state, y)

    def _potential(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The coefficients of g, whose gradient is the velocity of tokens."""
        Z = self.harmonics.values(self.kernel * y)
        return self.harmonics.coefficients(self.speed * (jnp.log(jnp.maximum(Z, 1e-300)) if self.normalised else Z))

    def drift(self, t: Float[Array, ""], y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The transport part of the right side."""
        basis = self.harmonics
        p, waves = basis.values(y), self._potential(y)
        g = basis.values(waves)  # one and the same g in all terms: otherwise the highest degrees are unstable
        bent, curved = basis.values(-basis.laplacian * waves), basis.values(-basis.laplacian * y)
        whole = -basis.laplacian * basis.coefficients(p * g) + basis.coefficients(p * bent - g * curved)
        return jnp.where(basis.degree > 0, -0.5 * whole, 0.0)

    def velocity(self, t, y):
        return self.drift(t, y) - self.decay * y

    def longest_step(self, t, y):
        """`1/(l max|∇g|)`: perturbations of degree l are carried along at the speed `|∇g|`, l being the highest degree
        that is not damped more quickly by the noise, `l²/kappa > l |∇g|`. `|∇g|² = ½ Δ(g²) - g Δg`.
        """
        basis = self.harmonics
        waves = self._potential(y)
        g, bent = basis.values(waves), basis.values(-basis.laplacian * waves)
        square = 0.5 * basis.values(-basis.laplacian * basis.coefficients(g * g)) - g * bent
        speed = jnp.sqrt(jnp.maximum(square.max(), 1e-300))
        noise = self.decay.max() / basis.laplacian.max()  # 1/kappa
        degree = jnp.minimum(basis.modes, 1.5 * speed / jnp.maximum(noise, 1e-300))
        return 1 / (jnp.maximum(degree, 1) * speed)

    def retract(self, y):
        return jnp.where(self.harmonics.degree == 0, 1.0, y)

    def error_size(self, error, y0, y1, rtol, atol):
        """In the mean square; the highest degrees more strictly, so that steps too long for them are seen before they matter."""
        length = lambda c: jnp.sqrt((c * c).sum())  # noqa: E731
        size = jnp.maximum(length(y0), length(y1))
        high = jnp.where(self.harmonics.degree > 0.75 * self.harmonics.modes, error, 0.0)
        strict = jnp.where(rtol < 1, 0.1 * self.edge, rtol)
        return jnp.maximum(length(error) / (atol + rtol * size), length(high) / (strict * size))

    @property
    def log_time_unit(self):
        return -self.unit

    @property
    def edge(self) -> float:
        """How large the highest degrees may be, relative to all: beyond, the resolution is raised.

        The Laplacian multiplies rounding errors by `modes^2`.
        """
        return max(1e-11, 1e-14 * self.harmonics.modes**2)

    def finer(self, state: AbstractDensity) -> AbstractDensity | None:
        """The state with more modes; None when there are as many as are allowed."""
        modes = min(GROWTH[type(state)] * state.modes, MOST_MODES[type(state)])
        return state.resized(modes) if modes > state.modes else None


def density_flow(state: AbstractDensity, model: Transformer) -> DensityFlow:
    """The flow of a density under a model that keeps densities."""
    head, basis, zero = model.attention.heads[0], state.harmonics, jnp.zeros(())
    beta = float(head.score.sharpness(zero, zero))
    v = head.value(zero, jnp.ones((1, 1)))[0, 0]
    sign = np.where(np.arange(state.modes + 1) % 2, math.copysign(1.0, beta), 1.0)
    logs = np.array([log_multiplier(k, abs(beta), state.d) - abs(beta) for k in range(state.modes + 1)])
    by_degree = sign * np.exp(logs)
    degree = np.asarray(basis.degree).astype(int)
    kernel = jnp.asarray(np.where(degree >= 0, by_degree[np.maximum(degree, 0)], 0.0), float)
    speed = v / (beta if beta else 1.0)
    normalised = isinstance(head, Softmax)
    if not normalised:
        speed = speed * jnp.exp(abs(beta) - head.log_unit)
    if beta == 0:  # Z/beta → <x, mean> + const
        kernel = jnp.asarray(np.where(degree == 1, 1 / state.d, 0.0), float)
        speed, normalised = v * (1.0 if isinstance(head, Softmax) else jnp.exp(-head.log_unit)), False
    kappa = jnp.inf if model.noise is None else model.noise.kappa  # in the time of the run, as everywhere
    decay = jnp.asarray(np.asarray(basis.laplacian) / float(kappa), float)
    return DensityFlow(basis, state, kernel, jnp.asarray(speed), decay, head.log_unit, normalised)


def _segments(state: AbstractDensity, model: Transformer) -> tuple[Segment, ...]:
    require_closed(state, model)
    return (Segment(float("inf"), density_flow(state, model)),)


def _obstacle(model: Transformer) -> str | None:
    head = model.attention
    if not isinstance(head, (Softmax, Unnormalized)):
        return f"it needs Softmax or Unnormalized attention, got {type(head).__name__}"
    if model.fisher_rao is not None:
        return "fisher_rao moves the weights of tokens"
    if not isinstance(model.norm, PostLN) or model.norm.gain.g is not None:
        return f"it needs the unit sphere, norm=PostLN(), got {model.norm!r}"
    if head.causal or model.mlp is not None:
        return "a causal mask or an MLP breaks the symmetry of the sphere"
    if not (head.isotropic and head.score.autonomous and head.value.autonomous):
        return "it needs isotropic attention (beta, with V a number) that does not change with time"
    if model.noise is not None and not isinstance(model.noise, SphereNoise):
        return f"it needs SphereNoise or none, got {type(model.noise).__name__}"
    return None


def _prepare(state: AbstractDensity, model: Transformer, tolerance: float = 0.0):
    """Modes enough to hold the ones that grow."""
    require_closed(state, model)
    beta = abs(float(model.attention.heads[0].score.sharpness(jnp.zeros(()), jnp.zeros(()))))
    least = min(2 * first_clusters(beta, state.d) + 8, MOST_MODES[type(state)])
    return (state if state.modes >= least else state.resized(least)), model, lambda states: states


for _kind in KINDS:
    prepare.register(_kind)(_prepare)
    segments.register(_kind)(_segments)
    obstacle(_kind)(_obstacle)
