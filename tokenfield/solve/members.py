"""Members of one shape as one tree whose arrays have a leading axis."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._check import handed_over
from ..flows import AbstractFlow, Segment, admit_all, prepare_all, segments
from ..transformer import Transformer
from .slots import ONE_THREAD


def stack(trees: Sequence[Any], module: Any = jnp) -> Any:
    """Trees of equal structure as one tree whose arrays have a leading axis."""
    columns, structures = zip(*map(jax.tree.flatten, trees), strict=True)
    same = all(structure == structures[0] for structure in structures)
    return jax.tree.unflatten(structures[0], [_stacked(leaves, same, module) for leaves in zip(*columns, strict=same)])


def _stacked(leaves: tuple[Any, ...], same: bool, module: Any) -> Any:
    """One leaf of all members: numbers side by side, anything else if it is the same for all."""
    numbers = eqx.is_array_like(leaves[0])
    if not same or (
        any(np.shape(leaf) != np.shape(leaves[0]) for leaf in leaves)
        if numbers
        else any(leaf != leaves[0] for leaf in leaves)
    ):
        raise ValueError("states (and models) must be of one kind and of equal shapes to run side by side")
    if not numbers:
        return leaves[0]
    together = np.stack([np.asarray(leaf) for leaf in leaves])
    return together if module is np else handed_over(together)


def take(tree: Any, index: np.ndarray) -> Any:
    """Some members of a batch."""
    return jax.tree.map(lambda leaf: handed_over(np.asarray(leaf)[index]) if eqx.is_array(leaf) else leaf, tree)


def put(tree: Any, index: np.ndarray, part: Any) -> None:
    """Replace some members of a batch, whose arrays are NumPy's."""

    def replace(leaf: np.ndarray, new: Any) -> None:
        leaf[index] = np.asarray(new)

    jax.tree.map(replace, tree, part)


def prepared(states: Sequence[Any], models: Sequence[Transformer]) -> list[tuple[Any, Transformer, Callable]]:
    """`prepare` for all members, once for each model where its states can share it."""
    prepared: list[Any] = [None] * len(states)
    for members in _by_model(models).values():
        shared = prepare_all(states[members[0]], [states[k] for k in members], models[members[0]])
        for k, each in zip(members, shared, strict=True):
            prepared[k] = each
    return prepared


def _by_model(models: Sequence[Transformer]) -> dict[int, list[int]]:
    """The members of each model."""
    groups: dict[int, list[int]] = {}
    for k, model in enumerate(models):
        groups.setdefault(id(model), []).append(k)
    return groups


def flows_of(states: Sequence[Any], models: Sequence[Transformer]) -> tuple[Segment, ...]:
    """The flows of all members, with a leading axis.

    Members often share models. Where a flow takes whole arrays from its state, such as weights, and all else from its
    model, it is made once for each model and those arrays are put in.
    """
    firsts: dict[int, tuple[int, tuple[Segment, ...]]] = {}
    for k, (state, model) in enumerate(zip(states, models, strict=True)):
        if id(model) not in firsts:
            firsts[id(model)] = k, segments(state, model)
    if len(firsts) == len(states):
        return stack([flows for _, flows in firsts.values()])
    k, flows = next(iter(firsts.values()))
    sources = _sources(states[k], models[k], flows)
    alike = len({jax.tree.structure(each) for _, each in firsts.values()}) == 1
    if sources is None or not alike:
        return stack([segments(state, model) for state, model in zip(states, models, strict=True)])
    for members in _by_model(models).values():
        admit_all(states[members[0]], [states[k] for k in members], models[members[0]])
    order = {key: place for place, key in enumerate(firsts)}
    index = np.array([order[id(model)] for model in models])
    leaves, structure = jax.tree.flatten(stack([flows for _, flows in firsts.values()], np))
    of_states = jax.tree.leaves(stack(states, np))
    pick = lambda leaf: handed_over(leaf[index]) if eqx.is_array(leaf) else leaf  # noqa: E731
    both = zip(leaves, sources, strict=True)
    return jax.tree.unflatten(
        structure, [pick(leaf) if source is None else handed_over(of_states[source]) for leaf, source in both]
    )


def _sources(state: Any, model: Transformer, flows: tuple[Segment, ...]) -> list[int | None] | None:
    """For each array of the flows, which array of the state it is (None: one that does not depend on the state).

    None where an array is made from the state in some other way: it is not the same in flows that are made again.
    """
    given = [id(leaf) for leaf in jax.tree.leaves(state)]
    again = jax.tree.map(lambda leaf: jnp.array(leaf) if eqx.is_array(leaf) else leaf, state)  # equal, but not the same
    sources: list[int | None] = []
    for one, other in zip(jax.tree.leaves(flows), jax.tree.leaves(segments(again, model)), strict=True):
        if id(one) not in given and one is not other and eqx.is_array(one):
            return None
        sources.append(given.index(id(one)) if id(one) in given else None)
    return sources


def log_time_unit(flow: AbstractFlow) -> float:
    """The unit of time that all members share."""
    unit = eqx.filter_vmap(lambda flow: flow.log_time_unit)(flow)
    if not np.allclose(unit, unit[0]):
        raise ValueError("the models run in different units of time: give their attentions one log_unit")
    return float(unit[0]) + 0.0


def _one_thread(function: Callable) -> Callable:
    """Compiled such that its bits do not depend on the number of threads."""
    return eqx.filter_jit(function, compiler_options=ONE_THREAD)  # type: ignore[call-overload]


@_one_thread
@eqx.filter_vmap
def pack(flow: AbstractFlow, state: Any) -> Any:
    return flow.pack(state)


@_one_thread
@eqx.filter_vmap
def unpack(flow: AbstractFlow, y: Any) -> Any:
    return flow.unpack(y)


@_one_thread
@eqx.filter_vmap
def unpack_saved(flow: AbstractFlow, saved: Any) -> Any:
    return jax.vmap(flow.unpack)(saved)


@_one_thread
@eqx.filter_vmap(in_axes=(eqx.if_array(0), eqx.if_array(0), None))
def observe_each(flow: AbstractFlow, y: Any, observe: Callable) -> Any:
    return observe(flow.unpack(y))
