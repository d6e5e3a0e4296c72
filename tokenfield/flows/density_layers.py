"""One layer on a density: every point of the sphere is moved as a token, and the density is that of the moved points."""

import equinox as eqx
import jax

from ..normalization.base import unit
from ..states import AbstractDensity, CircleDensity, SphereDensity, ZonalDensity
from ..transformer import Transformer
from .density_field import DensityField, directions, folds
from .density_modes import finer, resolution
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
        x = self.field.around
        layer = lambda x: x + h * self.field(y, x)  # noqa: E731
        (tau,) = directions(x)
        return folds(self.field.basis, *jax.jvp(layer, (x,), (tau,)))

    def unresolved(self, y):
        return self.state.replaced(y).unresolved(resolution(self.state.modes))

    def finer(self, state):
        return finer(state)


def _layers(state: AbstractDensity, model: Transformer) -> DensityLayers:
    check_layers(state, model)
    return DensityLayers(model, state, _field(model.attention, state.harmonics))


_field = eqx.filter_jit(DensityField)


for _kind in (CircleDensity, ZonalDensity):
    layer_flow.register(_kind)(_layers)


@layer_flow.register(SphereDensity)
def _(state: SphereDensity, model: Transformer) -> AbstractLayerFlow:
    raise ValueError("layers moves densities along great circles only, got SphereDensity: use a ZonalDensity or tokens")
