"""The discrete Transformer: one layer on tokens, on equiangular tokens, and on a Gaussian.

For densities see `density_layers.py`.
"""

import abc
from functools import singledispatch
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..attention import Measure
from ..normalization import Projected
from ..states import Equiangular, Gaussian, Tokens
from ..states.tokens import wrap_hint
from ..transformer import Transformer
from .affine import attend
from .base import AbstractFlow, Limits, admit, require_closed
from .equiangular import Angle, coefficients
from .gaussian import Root, symmetric
from .matrices import root
from .paired import Pair, read, with_context
from .projected import check_space
from .tokens import check


class AbstractLayerFlow(AbstractFlow):
    """A flow with layers instead of a velocity."""

    model: eqx.AbstractVar[Transformer]

    @abc.abstractmethod
    def layer(self, t: Float[Array, ""], y: Any, h: Float[Array, ""]) -> tuple[Any, Bool[Array, ""]]:
        """Return the unknowns after a layer with step size h at time t, and whether a token has length 0 before the norm."""

    @abc.abstractmethod
    def folds(self, t: Float[Array, ""], y: Any, h: Float[Array, ""]) -> Bool[Array, ""]:
        """Return True if a layer maps two points to one, where a density would become infinite."""

    def velocity(self, t, y):
        raise ValueError(
            "stop_when needs the velocity of the state, which Layers do not have: stop at a function of the state"
        )

    def retract(self, y):
        return y

    def relative_size(self, change, y0, y1, rtol, atol):
        return jnp.zeros(())  # layers are exact

    @property
    def log_time_unit(self):
        return -self.model.attention.log_unit


class AbstractExactLayers(AbstractLayerFlow):
    """Layers whose unknowns are the whole state, so they neither fold nor need more unknowns."""

    @property
    def limits(self):
        return Limits()

    def folds(self, t, y, h):
        return jnp.array(False)


class LayerFlow(AbstractExactLayers):
    """`x <- norm(x, h sublayer)` for attention, cross-attention and the MLP.

    With an encoder the unknowns are a `Pair`: layer l reads the context as it is before the encoder's own layer l.
    """

    model: Transformer
    weights: Float[Array, " n"]
    positions: Float[Array, " n"]

    def pack(self, state):
        return state.x if self.model.encoder is None else Pair(state.x, self.model.context.x)  # type: ignore[union-attr]

    def unpack(self, y):
        space = self.model.space if isinstance(self.model.norm, Projected) else None
        return Tokens(y.tokens if isinstance(y, Pair) else y, self.weights, self.positions, space)

    def layer(self, t, y, h):
        if not isinstance(y, Pair):
            return self._tokens(t, y, h)
        model, nu = self.model, self.model.context
        assert nu is not None
        assert model.encoder is not None
        context = Measure(y.context, nu.weights, nu.positions)
        encoder = model.encoder.at_layer(jnp.round(t / h).astype(int))
        decoder = with_context(self, read(encoder.norm, t, context))
        tokens, lost = decoder._tokens(t, y.tokens, h)  # type: ignore[attr-defined]
        moved, gone = LayerFlow(model=model.encoder, weights=nu.weights, positions=nu.positions)._tokens(
            t, y.context, h
        )
        return Pair(tokens, moved), lost | gone

    def _tokens(
        self, t: Float[Array, ""], x: Float[Array, "n d"], h: Float[Array, ""]
    ) -> tuple[Float[Array, "n d"], Bool[Array, ""]]:
        number = jnp.round(t / h).astype(int)
        model, vanished = self.model.at_layer(number), jnp.array(False)
        sublayers = model.sublayers(t, self.weights, self.positions)
        for norm, sublayer in zip(model.norms, sublayers, strict=True):
            x = norm.layer(t, x, sublayer, h)
            vanished |= norm.needs_length & (x == 0).all(axis=-1).any()
        if model.final is not None:
            x = jnp.where(number + 1 == self.model.length, model.final(x), x)
        return x, vanished


class EquiangularLayers(AbstractExactLayers):
    """One layer on n equiangular tokens, which stay equiangular.

    A token is the sum of two vectors: its component along the mean, and the component perpendicular to it. A layer multiplies
    each by a factor that is the same for all tokens, so a token is represented by two numbers, on which the norm acts.
    """

    model: Transformer
    n: int = eqx.field(static=True)

    def pack(self, state):
        return Angle(state.gap, state.radius)

    def unpack(self, y):
        return Equiangular(1 - y.u, self.n, y.r, gap=y.u)

    def layer(self, t, y, h):
        n, model = self.n, self.model
        x = jnp.sqrt(jnp.stack([(n - 1) * y.u, jnp.maximum(n - (n - 1) * y.u, 0)]) / n)

        def attention(read):
            """Return `A_j = (a - c) x_j + c sum_k x_k`, where the sum is n times the component along the mean."""
            perpendicular, along = read[0] ** 2
            a, c = coefficients(model.attention, t, n / (n - 1) * perpendicular / (perpendicular + along), n)
            return read * jnp.stack([a - c, a + (n - 1) * c])

        x = model.norm.layer(t, (y.r * x)[None], attention, h)[0]
        square = x @ x
        return Angle(n / (n - 1) * x[0] ** 2 / square, jnp.sqrt(square)), square == 0


class GaussianLayers(AbstractExactLayers):
    """`x <- x + h V(c + B x)`: `alpha <- alpha + h V(c + B alpha)`, `L <- L + h V B L` for the covariance `L L^T`."""

    model: Transformer

    def pack(self, state):
        return Root(state.mean, root(state.cov))

    def unpack(self, y):
        return Gaussian(y.mean, symmetric(y.L @ y.L.T))

    def layer(self, t, y, h):
        at_mean, on_root = attend(self.model.attention, t, y.mean, y.L)
        return Root(y.mean + h * at_mean, y.L + h * on_root), jnp.array(False)


@singledispatch
def layer_flow(state: Any, model: Transformer) -> AbstractLayerFlow:
    """Return the layers of a model for a state; raise ValueError if the model or the state does not support layers."""
    hint = wrap_hint(state) or ": sample it to tokens first"
    raise ValueError(f"layers moves Tokens, Equiangular, Gaussian or a density, got {type(state).__name__}{hint}")


@layer_flow.register(Tokens)
def _(state: Tokens, model: Transformer) -> LayerFlow:
    check_layers(state, model)
    check(state, model)
    check_space(state, model)
    return LayerFlow(model=model, weights=state.weights, positions=state.positions)


@layer_flow.register(Equiangular)
def _(state: Equiangular, model: Transformer) -> EquiangularLayers:
    check_layers(state, model)
    admit(state, model)
    return EquiangularLayers(model, state.n)


@layer_flow.register(Gaussian)
def _(state: Gaussian, model: Transformer) -> GaussianLayers:
    check_layers(state, model)
    model.check(state.d)
    return GaussianLayers(model)


def check_layers(state: Any, model: Transformer) -> None:
    """Raise ValueError unless the state has layers under the model."""
    if model.noise is not None:
        raise ValueError("layers has no noise: run a Transformer with noise with simulate(..., seed=...)")
    if model.fisher_rao is not None:
        raise ValueError("layers keeps the weights of tokens fixed: run a Transformer with fisher_rao with simulate")
    require_closed(state, model)


@eqx.filter_jit
def one_layer(model: Transformer, t, x, weights, positions, step):
    """Return the tokens after a layer, and whether a token has length 0 before the norm."""
    return LayerFlow(model=model, weights=weights, positions=positions).layer(t, x, step)
