"""The flow of densities on a sphere: the mean-field equation, with or without noise."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._shown import shown
from ..attention import Softmax, Unnormalized
from ..noise import SphereNoise
from ..normalization import PostLN
from ..spectral import AbstractHarmonics, multipliers
from ..states import AbstractDensity, CircleDensity, SphereDensity, ZonalDensity
from ..transformer import Transformer
from .base import AbstractSpectralFlow, Reduction, Segment, obstacle, reduced, require_closed, segments

KINDS = (CircleDensity, SphereDensity, ZonalDensity)
MOST_MODES = {CircleDensity: 2048, ZonalDensity: 1024, SphereDensity: 96}
GROWTH = {CircleDensity: 4, ZonalDensity: 4, SphereDensity: 2}  # factor of modes; each resolution is compiled


class DensityFlow(AbstractSpectralFlow):
    """`∂_t p = -∇·(p ∇g) + (1/kappa) Δp` with `g = v Z/beta` (USA) or `v log(Z)/beta` (SA), `Z = ∫ e^{beta<x,y>} dmu`.

    With the multipliers w_l of the kernel, `Z = w_0 (1 + beta h)`, `h = sum_{l>0} w_l/(beta w_0) c_l phi_l`. Up to a constant
    g is `v w_0 h` (USA) or `v log(1 + beta h)/beta` (SA), both smooth at beta = 0, where they are `v <x, mean>`.
    Since `∇·(p∇g) = (Δ(pg) + pΔg - gΔp)/2`, it needs only products of functions at nodes (FORMULAS §2, §10; the signs printed
    in the survey are reversed).
    """

    harmonics: AbstractHarmonics
    state: AbstractDensity
    kernel: Float[Array, "..."]
    """`w_l/(beta w_0)` at each coefficient, 0 for l = 0."""
    beta: Float[Array, ""]
    speed: Float[Array, ""]
    """v, times `w_0 e^{-log_unit}` for USA."""
    decay: Float[Array, "..."]
    unit: Float[Array, ""]
    normalised: bool = eqx.field(static=True)

    def pack(self, state):
        return state.coefficients

    def unpack(self, y):
        return self.state.replaced(y)

    def _potential(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the coefficients of g, whose gradient is the velocity of tokens, without its mean (which adds only rounding)."""
        waves = self.kernel * y
        if self.normalised:
            waves = self.harmonics.coefficients(log1p_ratio(self.beta, self.harmonics.values(waves)))
        return jnp.where(self.harmonics.degree > 0, self.speed * waves, 0.0)

    def drift(self, t: Float[Array, ""], y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the transport part of the right-hand side."""
        basis = self.harmonics
        p, waves = basis.values(y), self._potential(y)
        g = basis.values(waves)  # all terms must use the same g: otherwise the highest degrees are unstable
        bent, curved = basis.values(-basis.laplacian * waves), basis.values(-basis.laplacian * y)
        whole = -basis.laplacian * basis.coefficients(p * g) + basis.coefficients(p * bent - g * curved)
        return jnp.where(basis.degree > 0, -0.5 * whole, 0.0)

    def velocity(self, t, y):
        return self.drift(t, y) - self.decay * y

    def longest_step(self, t, y):
        """Return `1/(l max|∇g|)`, because perturbations of degree l are transported at speed `|∇g|`.

        Here l is the highest degree that the noise does not damp faster than that, `l²/kappa <= l |∇g|`. The speed follows
        from `|∇g|² = ½ Δ(g²) - g Δg`.
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
        """Return the error in mean square. The highest degrees count more, so that steps too long for them are rejected in time."""
        length = lambda c: jnp.sqrt((c * c).sum())  # noqa: E731
        size = jnp.maximum(length(y0), length(y1))
        high = jnp.where(self.harmonics.degree > 0.75 * self.harmonics.modes, error, 0.0)
        return jnp.maximum(length(error) / (atol + rtol * size), length(high) / (0.1 * self.edge * size))

    def change_size(self, change, y0, y1):
        length = lambda c: jnp.sqrt((c * c).sum())  # noqa: E731
        return length(change) / jnp.maximum(length(y0), length(y1))

    @property
    def log_time_unit(self):
        return -self.unit

    @property
    def edge(self) -> float:
        """How large the last degrees may be, relative to all of them, before the resolution is increased (`unresolved`).

        The Laplacian multiplies rounding errors by `modes^2`.
        """
        return max(1e-11, 1e-14 * self.harmonics.modes**2)

    def unresolved(self, y):
        return self.state.replaced(y).unresolved(self.edge)

    def finer(self, state: AbstractDensity) -> AbstractDensity | None:
        """Return the state with more modes, or None at the maximum number."""
        modes = min(GROWTH[type(state)] * state.modes, MOST_MODES[type(state)])
        return state.replaced(state.harmonics.embed(state.coefficients, modes)) if modes > state.modes else None


def density_flow(state: AbstractDensity, model: Transformer) -> DensityFlow:
    """Return the flow of a density, for a model under which densities have a closed equation."""
    head, basis, zero = model.attention.heads[0], state.harmonics, jnp.zeros(())
    beta = head.score.sharpness(zero, zero)
    whole, ratios = _multipliers(beta, state.d, state.modes)
    kernel = ratios[jnp.maximum(basis.degree, 0).astype(int)]  # entries without a harmonic get ratios[0] = 0
    speed = head.value(zero, jnp.ones((1, 1)))[0, 0]
    normalised = isinstance(head, Softmax)
    if not normalised:
        speed = speed * whole * jnp.exp(jnp.abs(beta) - head.log_unit)
    kappa = jnp.inf if model.noise is None else model.noise.kappa  # in the time unit of the run, as everywhere
    return DensityFlow(
        harmonics=basis,
        state=state,
        kernel=kernel,
        beta=beta,
        speed=speed,
        decay=basis.laplacian / kappa,
        unit=head.log_unit,
        normalised=normalised,
    )


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


def _segments(state: AbstractDensity, model: Transformer) -> tuple[Segment, ...]:
    require_closed(state, model)
    return (Segment(float("inf"), density_flow(state, model)),)


def _obstacle(model: Transformer) -> str | None:
    head = model.attention
    if not isinstance(head, (Softmax, Unnormalized)):
        return f"it needs Softmax or Unnormalized attention, got {type(head).__name__}"
    if model.fisher_rao is not None:
        return "fisher_rao changes the weights of tokens"
    if not isinstance(model.norm, PostLN) or model.norm.gain.g is not None:
        return f"it needs the unit sphere, norm=PostLN(), got {shown(model.norm)}"
    if head.uses_positions or model.mlp is not None:
        return "a causal mask, rules for positions or an MLP break the symmetry of the sphere"
    if not (head.isotropic and head.score.autonomous and head.value.autonomous):
        return "it needs isotropic attention (beta, with V a number) that does not change with time"
    if model.noise is not None and not isinstance(model.noise, SphereNoise):
        return f"it needs SphereNoise or none, got {type(model.noise).__name__}"
    return None


def _with_modes(state: AbstractDensity, model: Transformer, tolerance: float = 0.0) -> Reduction:
    """Give the density enough modes to resolve those that grow."""
    require_closed(state, model)
    beta, most = model.attention.heads[0].score.sharpness(jnp.zeros(()), jnp.zeros(())), MOST_MODES[type(state)]
    ratios = np.asarray(_multipliers(jnp.abs(beta), state.d, most // 2).ratios)
    k = np.arange(len(ratios))
    fastest = int(
        np.argmax(k * (k + state.d - 2) * ratios)
    )  # by the growth rates of a small perturbation (FORMULAS §8)
    least = min(2 * fastest + 8, most)
    return Reduction(state if state.modes >= least else state.resized(least), model)


for _kind in KINDS:
    reduced.register(_kind)(_with_modes)
    segments.register(_kind)(_segments)
    obstacle(_kind)(_obstacle)
