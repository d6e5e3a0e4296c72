"""How a Transformer moves tokens."""

import jax
import jax.numpy as jnp
import numpy as np

from ..normalization import AbstractSphereNorm, NoNorm, Rescaled
from ..states import Tokens
from ..transformer import Transformer
from .base import NoClosedEquation, Segment, prepare, segments
from .free import FreeFlow
from .rescaled import rescaled_flow
from .span import coordinates
from .sphere import SphereFlow, check_lengths


@segments.register(Tokens)
def _(state: Tokens, model: Transformer) -> tuple[Segment, ...]:
    check(state, model)
    check_start(state, model)
    rules: tuple = ((float("inf"), model.norm),)
    if isinstance(model.norm, AbstractSphereNorm):
        rules = model.norm.segments()
        build = lambda rule: SphereFlow(model, rule, model.norm.radial, state.weights, state.positions)  # noqa: E731
    elif isinstance(model.norm, Rescaled):
        build = lambda rule: rescaled_flow(model, state)  # noqa: E731
    elif isinstance(model.norm, NoNorm):
        build = lambda rule: FreeFlow(model, state.weights, state.positions)  # noqa: E731
    else:
        raise NoClosedEquation(f"no flow of tokens is known for the norm {type(model.norm).__name__}")
    ends = sorted({until for until, _ in rules} | {time for time in model.breakpoints if time > 0})
    rule_at = lambda end: next(rule for until, rule in rules if end <= until)  # noqa: E731
    return tuple(Segment(end, build(rule_at(end))) for end in ends)


@prepare.register(Tokens)
def _(state: Tokens, model: Transformer):
    if not model.isotropic or state.d <= state.n:
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
