"""One layer on a density: every point of the sphere moves like a token, and the new density is that of the moved points."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..normalization.base import unit
from ..states import AbstractDensity, CircleDensity, SphereDensity, ZonalDensity
from ..transformer import Transformer
from .density_field import DensityField, directions, folds
from .density_modes import density_limits
from .layers import AbstractLayerFlow, check_layers, layer_flow


class DensityLayers(AbstractLayerFlow):
    """`T(x) = N(x + h Gamma(x))`, and `∫ phi dmu <- ∫ phi(T x) dmu` for every harmonic phi, by the quadrature of the basis.

    The mass is conserved exactly. If T maps two points to one, it folds the sphere, and the density becomes infinite at the
    edges of the fold (`folds`).
    """

    model: Transformer
    state: AbstractDensity
    field: DensityField

    def pack(self, state):
        return state.coefficients

    def unpack(self, y):
        return self.state.replaced(y)

    def layer(self, t, y, h):
        x, weights = self.field.spread(y)
        z = x + h * self.field(y, x)
        return self.field.pushed(unit(z), weights), (z == 0).all(1).any()

    def folds(self, t, y, h):
        x, layer = self.field.around, lambda x: x + h * self.field(y, x)
        if self.state.d == 3 and x.shape[1] == 3:
            return folds_sphere(layer, x)
        (tau,) = directions(x)
        return folds(self.field.basis, *jax.jvp(layer, (x,), (tau,)))

    @property
    def limits(self):
        return density_limits(self.state)


def folds_sphere(layer: Callable[[Array], Array], x: Float[Array, "N 3"]) -> Bool[Array, ""]:
    """Return True if `x -> z(x)/|z(x)|` is not one-to-one on the 2-sphere, from its derivatives at points off the poles.

    If `det(z, D_tau z, D_eta z)` never changes sign, the map is a covering of the sphere by itself, and so one-to-one.
    """
    tau = unit(jnp.stack([-x[:, 1], x[:, 0], jnp.zeros_like(x[:, 0])], axis=1))
    z, along = jax.jvp(layer, (x,), (tau,))
    across = jax.jvp(layer, (x,), (jnp.cross(x, tau),))[1]
    det = (z * jnp.cross(along, across)).sum(1)
    return ~((det > 0).all() | (det < 0).all())


def _layers(state: AbstractDensity, model: Transformer) -> DensityLayers:
    check_layers(state, model)
    return DensityLayers(model, state, DensityField(model.attention, state.harmonics))


for _kind in (CircleDensity, SphereDensity, ZonalDensity):
    layer_flow.register(_kind)(_layers)
