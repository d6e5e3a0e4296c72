"""The flow of densities on a sphere: the mean-field equation, with or without noise."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._shown import shown
from ..noise import AnisotropicNoise, CommonNoise, MultiplicativeNoise, SphereNoise
from ..normalization import PostLN
from ..spectral import AbstractHarmonics
from ..states import AbstractDensity, ZonalDensity
from ..transformer import Transformer
from .base import (
    AbstractSpectralFlow,
    Reduction,
    Segment,
    is_random,
    obstacle,
    reduced,
    require_closed,
    segments,
)
from .density_field import DensityField
from .density_heads import AbstractDensityHead, density_heads, density_obstacle
from .density_modes import KINDS, MOST_MODES, density_limits, resolution
from .density_noise import AbstractUneven, density_noise, noise_obstacle
from .random_density import RandomDensityFlow


class DensityFlow(AbstractSpectralFlow):
    """`∂_t p = -∇·(p u) + (1/kappa) Δp`, where heads move tokens with the velocity `u = sum_h f_h ∇g_h` (see `density_heads.py`).

    Since `∇·(q∇g) = (Δ(qg) + qΔg - gΔq)/2`, it needs only products of functions at nodes (FORMULAS §2, §10; the signs printed
    in the survey are reversed). Noise other than `SphereNoise` is in `density_noise.py`.
    """

    harmonics: AbstractHarmonics
    state: AbstractDensity
    heads: tuple[AbstractDensityHead, ...]
    decay: Float[Array, "..."]
    uneven: AbstractUneven | None
    """The rest of the noise, not contained in `decay`; None if the noise is uniform and isotropic."""
    unit: Float[Array, ""]

    def pack(self, state):
        return state.coefficients

    def unpack(self, y):
        return self.state.replaced(y)

    def _velocities(self, y: Float[Array, "..."]) -> list[tuple[Float[Array, " N"] | None, Float[Array, "..."]]]:
        """Return f and the coefficients of g: one pair for all heads with f = 1, and one for each other head.

        The mean of g is left out, because it adds only rounding errors.
        """
        basis = self.harmonics
        pairs = [(head.factor(basis, y), head.potential(basis, y)) for head in self.heads]
        pairs = [(f, jnp.where(basis.degree > 0, waves, 0.0)) for f, waves in pairs]
        plain = [waves for f, waves in pairs if f is None]
        together = [(None, jnp.stack(plain).sum(0))] if plain else []
        return [*together, *(pair for pair in pairs if pair[0] is not None)]

    def drift(self, t: Float[Array, ""], y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the transport part of the right-hand side."""
        basis, p, whole = self.harmonics, self.harmonics.values(y), jnp.zeros_like(y)
        for f, waves in self._velocities(y):
            q, c = (p, y) if f is None else (p * f, basis.coefficients(p * f))
            g = basis.values(waves)  # all terms must use the same g: otherwise the highest degrees are unstable
            bent, curved = basis.values(-basis.laplacian * waves), basis.values(-basis.laplacian * c)
            whole += -basis.laplacian * basis.coefficients(q * g) + basis.coefficients(q * bent - g * curved)
        spread = 0.0 if self.uneven is None else self.uneven(basis, y)
        return jnp.where(basis.degree > 0, spread - 0.5 * whole, 0.0)

    def velocity(self, t, y):
        return self.drift(t, y) - self.decay * y

    def _longest_step(self, t: Array, y: Array) -> Array:
        """Return `1/(l max|u|)`, because perturbations of degree l are transported at speed `|u|`.

        Here l is the highest degree that the noise does not damp faster than that, `l²/kappa <= l |u|`. The speed follows
        from `|∇g|² = ½ Δ(g²) - g Δg`.
        """
        basis, speed = self.harmonics, jnp.zeros(())
        for f, waves in self._velocities(y):
            g, bent = basis.values(waves), basis.values(-basis.laplacian * waves)
            square = 0.5 * basis.values(-basis.laplacian * basis.coefficients(g * g)) - g * bent
            speed += jnp.sqrt(jnp.maximum((square if f is None else f * f * square).max(), 1e-300))
        noise = self.decay.max() / basis.laplacian.max()  # 1/kappa
        degree = jnp.minimum(basis.modes, 1.5 * speed / jnp.maximum(noise, 1e-300))
        return 1 / (jnp.maximum(degree, 1) * speed)

    def retract(self, y):
        return jnp.where(self.harmonics.degree == 0, 1.0, y)

    def relative_size(self, change, y0, y1, rtol, atol):
        """Return the change in mean square."""
        return _length(change) / (atol + rtol * jnp.maximum(_length(y0), _length(y1)))

    def _roughness(self, error: Array, y0: Array, y1: Array) -> Array:
        """Return the error in the highest degrees, so that steps that are too large for these degrees are rejected early."""
        high = jnp.where(self.harmonics.degree > 0.75 * self.harmonics.modes, error, 0.0)
        return _length(high) / (0.1 * self.edge * jnp.maximum(_length(y0), _length(y1)))

    @property
    def limits(self):
        return density_limits(self.state, longest_step=self._longest_step, roughness=self._roughness)

    @property
    def log_time_unit(self):
        return -self.unit

    @property
    def edge(self) -> float:
        return resolution(self.harmonics.modes)


def _length(c: Float[Array, "*m"]) -> Float[Array, ""]:
    return jnp.sqrt((c * c).sum())


def density_flow(state: AbstractDensity, model: Transformer) -> DensityFlow:
    """Return the flow of a density, for a model under which densities have a closed equation."""
    basis = state.harmonics
    diffusion, uneven = density_noise(model.noise, basis)
    return DensityFlow(
        harmonics=basis,
        state=state,
        heads=density_heads(model.attention, state.d, state.modes),
        decay=basis.laplacian * diffusion,
        uneven=uneven,
        unit=model.attention.log_unit,
    )


def _segments(state: AbstractDensity, model: Transformer) -> tuple[Segment, ...]:
    require_closed(state, model)
    if _is_random(state, model):
        assert model.noise is not None
        model.noise.check(state.d)
        field = _field(model.attention, state.harmonics)
        flow = RandomDensityFlow(model, model.noise, state, field)
        return (Segment(float("inf"), flow),)
    return (Segment(float("inf"), density_flow(state, model)),)


_field = eqx.filter_jit(DensityField)


def _is_random(state: AbstractDensity, model: Transformer) -> bool:
    return isinstance(model.noise, CommonNoise)


KINDS_OF_NOISE = (SphereNoise, CommonNoise, AnisotropicNoise, MultiplicativeNoise)


def _obstacle(kind: type, model: Transformer) -> str | None:
    if model.fisher_rao is not None:
        return "fisher_rao changes the weights of tokens"
    if not isinstance(model.norm, PostLN) or model.norm.gain.g is not None:
        return f"it needs the unit sphere, norm=PostLN(), got {shown(model.norm)}"
    if model.mlp is not None:
        return "an MLP breaks the symmetry of the sphere"
    if model.noise is not None and not isinstance(model.noise, KINDS_OF_NOISE):
        return (
            f"it needs {', '.join(each.__name__ for each in KINDS_OF_NOISE)} or none, got {type(model.noise).__name__}"
        )
    if kind is ZonalDensity and isinstance(model.noise, CommonNoise):
        return "common noise pushes all tokens in one direction, which is not that of the axis"
    return noise_obstacle(kind, model.noise) or density_obstacle(model.attention)


def _with_modes(state: AbstractDensity, model: Transformer, tolerance: float = 0.0) -> Reduction:
    """Return the density with enough modes to resolve those that grow."""
    require_closed(state, model)
    most = MOST_MODES[type(state)]
    response = sum(np.abs(np.asarray(head.response)) for head in density_heads(model.attention, state.d, most // 2))
    k = np.arange(most // 2 + 1)
    fastest = int(
        np.argmax(k * (k + state.d - 2) * response)
    )  # by the growth rates of a small perturbation (FORMULAS §8)
    least = min(2 * fastest + 8, most)
    return Reduction(state if state.modes >= least else state.resized(least), model)


for _kind in KINDS:
    reduced.register(_kind)(_with_modes)
    segments.register(_kind)(_segments)
    obstacle(_kind)(partial(_obstacle, _kind))
    is_random.register(_kind)(_is_random)
