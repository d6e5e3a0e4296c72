"""The flow of tokens under a Transformer."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np

from .._check import is_concrete
from ..attention import AbstractHead, Unnormalized
from ..attention.positions import check_rules
from ..attention.series import by_series
from ..normalization import AbstractNorm, AbstractSphereNorm, NoNorm, PreNorm, Projected, Rescaled
from ..normalization.base import unit
from ..states import Tokens
from ..transformer import Transformer
from .base import (
    AbstractFlow,
    NoClosedEquation,
    Reduction,
    Segment,
    admit,
    admit_all,
    is_random,
    obstacle,
    reduced,
    reduced_all,
    require_closed,
    rules_in_time,
    segments,
)
from .fisher_rao import FisherRaoFlow, fisher_rao_obstacle
from .free import FreeFlow
from .noisy import NoisyFlow, noise_obstacle
from .paired import PairedFlow
from .projected import ProjectedFlow, check_space
from .rescaled import rescaled_segments
from .span import coordinates, span_coordinates
from .sphere import SphereFlow, check_lengths, wrong_lengths


@segments.register(Tokens)
def _(state: Tokens, model: Transformer) -> tuple[Segment, ...]:
    require_closed(state, model)
    if model.depth is not None:
        return _layer_by_layer(state, model)
    check(state, model)
    admit(state, model)
    rules = rules_in_time(model)
    if model.encoder is not None:
        return _paired(state, model, rules)
    if isinstance(model.norm, Rescaled):
        return rescaled_segments(model, state, [end for end, _ in rules])
    return tuple(Segment(end, _flow(state, model, rule)) for end, rule in rules)


def _layer_by_layer(state: Tokens, model: Transformer) -> tuple[Segment, ...]:
    """Return the flows of a model with weights by layer: those of layer l act from time l to l + 1."""
    assert model.length is not None
    if model.final is not None:
        raise NoClosedEquation("a flow has no map after its last layer: remove it with model.continuous()")
    if isinstance(model.norm, Rescaled):
        raise NoClosedEquation("norm=Rescaled() needs one V(t) for all layers, got weights by layer: use NoNorm()")
    found: list[Segment] = []
    for index in range(model.length):
        parts = segments(state, model.at_layer(index))
        if len(parts) > 1:
            raise NoClosedEquation(
                "weights by layer already change with time: the norm and A(t), V(t), … must be continuous in time"
            )
        found.append(Segment(index + 1.0 if index + 1 < model.length else float("inf"), parts[0].flow))
    return tuple(found)


def _paired(state: Tokens, model: Transformer, rules: list) -> tuple[Segment, ...]:
    """Return the flows of tokens whose context moves too, one after another in time."""
    assert model.encoder is not None
    encoder = segments(model.context, model.encoder)
    if not is_concrete(*(end for end, _ in rules), *(part.until for part in encoder)):
        raise ValueError(
            "tau of MixLN is traced, and the context moves too: inside jit, vmap or grad the order of their times is not known; "
            "use a plain number for tau"
        )
    ends = sorted({end for end, _ in rules} | {part.until for part in encoder})
    at = lambda pairs, end: next(value for until, value in pairs if end <= until)  # noqa: E731
    moving = [(part.until, (part.flow, model.encoder.at_layer(index).norm)) for index, part in enumerate(encoder)]
    pairs = ((end, _flow(state, model, at(rules, end)), *at(moving, end)) for end in ends)
    return tuple(Segment(end, PairedFlow(own, other, norm, model.context)) for end, own, other, norm in pairs)


@obstacle(Tokens)
def _(model: Transformer) -> str | None:
    return noise_obstacle(model) or fisher_rao_obstacle(model) or _context_obstacle(model)


def _context_obstacle(model: Transformer) -> str | None:
    """Return why the tokens cannot attend to a context, or None if they can."""
    if model.context is None:
        return None
    if isinstance(model.norm, Rescaled):
        return "with a context, e^(-tV) x has no closed equation: use norm=NoNorm()"
    if model.encoder is not None and not (model.noise is None and model.encoder.noise is None):
        return "a model with a moving context cannot have noise, and neither can the context"
    if model.encoder is not None and isinstance(model.encoder.norm, Rescaled):
        return "the encoder must move the context itself: it cannot have norm=Rescaled()"
    return None


@is_random.register(Tokens)
def _(state: Tokens, model: Transformer) -> bool:
    return model.noise is not None


def _flow(state: Tokens, model: Transformer, rule: AbstractNorm) -> AbstractFlow:
    """Return the smooth flow under one rule, with noise if the model has any."""
    flow = _smooth_flow(state, model, rule)
    if model.noise is None:
        return flow
    assert isinstance(flow, (SphereFlow, FreeFlow, ProjectedFlow))  # `noise_obstacle` allows no others
    return NoisyFlow(flow, model.noise)


def _smooth_flow(state: Tokens, model: Transformer, rule: AbstractNorm) -> AbstractFlow:
    if model.fisher_rao is not None:
        return FisherRaoFlow(model, state.weights, state.positions)
    if any(norm is not model.norm and not isinstance(norm, (NoNorm, PreNorm)) for norm in model.norms):
        raise NoClosedEquation(
            "norm: only PreNorm and NoNorm may differ between sublayers in a flow; `layers` runs all of them"
        )
    if isinstance(rule, Projected):
        return ProjectedFlow(model=model, weights=state.weights, positions=state.positions)
    if isinstance(rule, AbstractSphereNorm):
        radial = isinstance(model.norm, AbstractSphereNorm) and model.norm.radial
        return SphereFlow(model, rule, radial, state.weights, state.positions)
    if all(isinstance(norm, (NoNorm, PreNorm)) for norm in model.norms):
        return FreeFlow(model=model, weights=state.weights, positions=state.positions)
    raise NoClosedEquation(
        f"norm: {type(rule).__name__} has layers, but no flow (use NoNorm, PreNorm, PostLN, PreLN, …)"
    )


@reduced.register(Tokens)
def _(state: Tokens, model: Transformer, tolerance: float = 0.0) -> Reduction:
    """Return the problem with sums by a series ("series") and coordinates in the span of the tokens ("span")."""
    names: tuple[str, ...] = ()
    plain = model.fisher_rao is None and model.context is None and model.depth is None
    if isinstance(model.norm, AbstractSphereNorm) and not model.norm.scale_free and plain:
        quick = by_series(model.attention, state.x, state.weights, tolerance)
        if quick is not model.attention:
            model, names = eqx.tree_at(lambda m: m.attention, model, quick), ("series",)
    if not model.isotropic or state.d <= max(state.n, 2) or state.n < 2:
        return Reduction(state, model, names)
    check(state, model)
    if isinstance(model.norm, AbstractSphereNorm):
        model.norm.check(state.d)
    small, basis = coordinates(state)
    lift = lambda states: eqx.tree_at(lambda s: s.x, states, np.asarray(states.x) @ basis)  # noqa: E731
    return Reduction(small, model, (*names, "span"), lift)


@reduced_all.register(Tokens)
def _(first: Tokens, states: Sequence[Tokens], model: Transformer, tolerance: float = 0.0) -> list[Reduction]:
    """Reduce all states like the first one if they have its shape and use no series; only their coordinates differ."""
    one = reduced(first, model, tolerance)
    if len(states) == 1:
        return [one]
    if "series" in one.names or any(state.x.shape != first.x.shape for state in states):
        return [reduced(state, model, tolerance) for state in states]
    if one.state is first:
        return [one._replace(state=state) for state in states]
    structure = jax.tree.structure(first)

    def in_span(state: Tokens) -> Reduction:
        tokens, weights, positions = jax.tree.leaves(state)
        coordinates, basis = span_coordinates(np.asarray(tokens))
        lift = lambda states: eqx.tree_at(lambda s: s.x, states, np.asarray(states.x) @ basis())  # noqa: E731
        small = jax.tree.unflatten(structure, [coordinates, weights, positions])
        return one._replace(state=small, lift=lift)

    return [in_span(state) for state in states]


@admit_all.register(Tokens)
def _(first: Tokens, states: Sequence[Tokens], model: Transformer) -> None:
    """Check the lengths of all states at once; `admit` raises the error for the first one that fails."""
    for state in states:
        check_space(state, model)
    if not isinstance(model.norm, AbstractSphereNorm):
        return
    wrong = wrong_lengths([np.asarray(jax.tree.leaves(state)[0]) for state in states], model.norm)
    if wrong is not None:
        admit(states[wrong], model)


def check(state: Tokens, model: Transformer) -> None:
    """Raise ValueError unless all matrices fit the dimension and attention maps R^d to R^d."""
    model = model.at_layer(0)
    model.check(state.d)
    for attention, keys in (
        (model.attention, model.context if model.cross is None else None),
        (model.cross, model.context),
    ):
        for head in () if attention is None else attention.heads:
            check_rules(head.positions, state.n, state.n if keys is None else len(keys.x))
    if model.attention.isotropic:
        return
    for head in model.attention.heads:
        if isinstance(head, Unnormalized) and isinstance(model.norm, AbstractSphereNorm):
            head.check_range(model.norm.reads(unit(state.x)))
    for attention in (model.attention, model.cross):
        width = (*attention.value.shape(), state.d)[0] if isinstance(attention, AbstractHead) else state.d
        if width != state.d:
            raise ValueError(f"V must map R^{state.d} to itself, got an attention with values in R^{width}")


@admit.register(Tokens)
def _(state: Tokens, model: Transformer) -> None:
    """Raise ValueError unless the tokens live in the space of the model, and have the length that the norm fixes."""
    check_space(state, model)
    if isinstance(model.norm, AbstractSphereNorm):
        check_lengths(state, model.norm)
