"""The derivatives of an attention and of a Transformer's layer at given tokens."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import is_concrete
from ..attention import AbstractAttention, AbstractPairwise, Hardmax, Measure, Sinkhorn, heads_and_outputs
from ..attention.parameters import ValueMap
from ..normalization import AbstractNorm, MixLN, PostLN, PreLN
from ..states import Tokens
from ..transformer import Transformer
from .choice import choice_derivative
from .coupling import coupling_derivative
from .derivative import AbstractDerivative, Autodiff, Chain, Sum
from .pairwise import STORED_ENTRIES, pairwise_derivative


class HeadMap(eqx.Module):
    """`x -> W Gamma(x)` at fixed weights, positions and time."""

    head: AbstractAttention
    output: ValueMap
    t: Float[Array, ""]
    w: Float[Array, " n"]
    positions: Float[Array, " n"]

    def __call__(self, x):
        return self.output(self.t, self.head.of_itself(self.t, Measure(x, self.w, self.positions)))


class Sublayer(eqx.Module):
    """One sublayer of a model, cross-attention or the MLP, as a function of its input."""

    model: Transformer
    t: Float[Array, ""]
    w: Float[Array, " n"]
    positions: Float[Array, " n"]
    index: int = eqx.field(static=True)

    def __call__(self, x):
        return self.model.sublayers(self.t, self.w, self.positions)[self.index](x)


class SublayerStep(eqx.Module):
    """`(x, a) -> norm.layer(x)` where the sublayer's output is a given array a, for every input."""

    norm: AbstractNorm
    t: Float[Array, ""]
    step: Float[Array, ""]

    def __call__(self, x: Array, a: Array) -> Array:
        return self.norm.layer(self.t, x, lambda _: a, self.step)  # type: ignore[arg-type]

    def reads(self, x: Array) -> Array:
        """Return the input of the sublayer."""
        return self.norm.inputs(self.t, x)


class SublayerDerivative(AbstractDerivative):
    """The chain rule through a norm around a sublayer: `D = d_x F + d_a F D_sublayer D reads`."""

    around: SublayerStep
    inner: AbstractDerivative
    x: Float[Array, "n d"]
    a: Float[Array, "n d"]

    def apply(self, e):
        read = jax.jvp(self.around.reads, (self.x,), (e,))[1]
        return jax.jvp(self.around, (self.x, self.a), (e, self.inner.apply(read)))[1]

    def transpose(self, u):
        own, a = jax.vjp(self.around, self.x, self.a)[1](u)
        return own + jax.vjp(self.around.reads, self.x)[1](self.inner.transpose(a))[0]


def attention_derivative(
    attention: AbstractAttention, t: Float[Array, ""], state: Tokens, copies: int = 1
) -> AbstractDerivative:
    """Return the derivative of `x -> Gamma(x)`, head by head: in blocks of rows if the kernel is a function of the score.

    With several `copies`, each may use its share of the memory for matrices.
    """
    pairs = heads_and_outputs(attention)
    entries = STORED_ENTRIES // (copies * len(pairs))
    parts, factors = [], []
    for head, W in pairs:
        parts.append(_head_derivative(head, W, t, state, entries))
        factors.append(jnp.exp(head.log_unit - attention.log_unit))
    if len(parts) == 1:
        return parts[0]
    return Sum(tuple(parts), tuple(factors))


def _head_derivative(head, W: ValueMap, t, state: Tokens, entries: int) -> AbstractDerivative:
    data = state.x, state.weights, state.positions
    if isinstance(head, AbstractPairwise) and (head.softmax or not head.normalized):
        return pairwise_derivative(head, W, t, *data, entries)
    if isinstance(head, Sinkhorn) and not head.positions:
        found = coupling_derivative(head, W, t, *data)
        if is_concrete(found.P) and not np.isfinite(np.asarray(found.P)).all():
            raise ValueError(
                f"attention: Sinkhorn did not reach tolerance = {head.tolerance:g} within max_iterations = "
                f"{head.max_iterations} at these tokens; allow more iterations"
            )
        return found
    if isinstance(head, Hardmax):
        return choice_derivative(head, W, t, *data)
    return Autodiff(HeadMap(head, W, t, state.weights, state.positions), state.x)


def layer_derivative(
    model: Transformer, t: Float[Array, ""], state: Tokens, step: Float[Array, ""], copies: int = 1
) -> tuple[AbstractDerivative, Float[Array, "n d"]]:
    """Return the derivative of one layer of `layers`, and the tokens after it."""
    model = model.at_layer(round(float(t / step))) if model.depth is not None else model
    x, parts = state.x, []
    for index, sublayer in enumerate(model.sublayers(t, state.weights, state.positions)):
        norm = model.norms[index]
        if isinstance(norm, MixLN):
            norm = PostLN() if float(t) < float(norm.tau) else PreLN()
        around = SublayerStep(norm, t, step)
        read = eqx.filter_jit(around.reads)(x)
        if index == 0 and (model.context is None or model.cross is not None):  # self-attention
            at = eqx.tree_at(lambda s: s.x, state, read)
            inner = attention_derivative(model.attention, t, at, copies)
            a = eqx.filter_jit(HeadMap(model.attention, ValueMap(), t, state.weights, state.positions))(read)
        else:
            inner = Autodiff(Sublayer(model, t, state.weights, state.positions, index), read)
            a = sublayer(read)
        parts.append(SublayerDerivative(around, inner, x, a))
        x = eqx.filter_jit(around)(x, a)
    return (parts[0] if len(parts) == 1 else Chain(tuple(parts))), x
