"""How a Transformer moves tokens."""

import jax
import jax.numpy as jnp
import numpy as np

from ..normalization import AbstractNorm, AbstractSphereNorm, NoNorm, Rescaled
from ..states import Tokens
from ..transformer import Transformer
from .base import AbstractFlow, NoClosedEquation, Segment, prepare, segments
from .free import FreeFlow
from .rescaled import rescaled_flow
from .span import coordinates
from .sphere import SphereFlow, check_lengths


@segments.register(Tokens)
def _(state: Tokens, model: Transformer) -> tuple[Segment, ...]:
    check(state, model)
    check_start(state, model)
    rules: tuple[tuple[float, AbstractNorm], ...] = ((float("inf"), model.norm),)
    if isinstance(model.norm, AbstractSphereNorm):
        rules = model.norm.segments()
    ends = sorted({until for until, _ in rules} | {time for time in model.breakpoints if time > 0})
    rule_at = lambda end: next(rule for until, rule in rules if end <= until)  # noqa: E731
    return tuple(Segment(end, _flow(state, model, rule_at(end))) for end in ends)


def _flow(state: Tokens, model: Transformer, rule: AbstractNorm) -> AbstractFlow:
    """The smooth flow under one rule."""
    if isinstance(rule, AbstractSphereNorm):
        radial = isinstance(model.norm, AbstractSphereNorm) and model.norm.radial
        return SphereFlow(model, rule, radial, state.weights, state.positions)
    if isinstance(rule, Rescaled):
        return rescaled_flow(model, state)
    if isinstance(rule, NoNorm):
        return FreeFlow(model=model, weights=state.weights, positions=state.positions)
    raise NoClosedEquation(f"no flow of tokens is known for the norm {type(rule).__name__}")


@prepare.register(Tokens)
def _(state: Tokens, model: Transformer):
    if not model.isotropic or state.d <= max(state.n, 2) or state.n < 2:
        return state, model, lambda saved: saved
    check(state, model)
    if isinstance(model.norm, AbstractSphereNorm):
        model.norm.check(state.d)
    small, basis = coordinates(state)
    return small, model, lambda x: np.asarray(x) @ basis


def check(state: Tokens, model: Transformer) -> None:
    """Raise a ValueError unless every matrix fits and attention maps R^d to R^d."""
    model.check(state.d)
    shape = jax.eval_shape(model.attention, jnp.zeros(()), state.x, state.weights, state.positions).shape
    if shape != state.x.shape:
        raise ValueError(f"V must map R^{state.d} to itself, got an attention with values in R^{shape[1]}")


def check_start(state: Tokens, model: Transformer) -> None:
    """Raise a ValueError unless the tokens start where the norm keeps them."""
    if isinstance(model.norm, AbstractSphereNorm):
        check_lengths(state, model.norm)
