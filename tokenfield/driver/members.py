"""Stack ensemble members of one shape into one tree whose arrays have a leading member axis."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._xla import ONE_THREAD
from .._xla.arrays import from_numpy
from .._xla.compilation import compiled
from ..flows import AbstractFlow, Segment, admit_all, segments
from ..solver.solution import row
from ..transformer import Transformer


def stack(trees: Sequence[Any], module: Any = jnp) -> Any:
    """Stack trees of equal structure into one tree whose arrays have a leading axis."""
    columns, structures = zip(*map(jax.tree.flatten, trees), strict=True)
    same = all(structure == structures[0] for structure in structures)
    return jax.tree.unflatten(structures[0], [_stacked(leaves, same, module) for leaves in zip(*columns, strict=same)])


def _stacked(leaves: tuple[Any, ...], same: bool, module: Any) -> Any:
    """Stack one leaf of all members: numbers along a new axis; anything else must be the same for all."""
    numbers = eqx.is_array_like(leaves[0])
    if not same or (
        any(np.shape(leaf) != np.shape(leaves[0]) for leaf in leaves)
        if numbers
        else any(leaf != leaves[0] for leaf in leaves)
    ):
        raise ValueError("states (and models) must be of one kind and of equal shapes to run as one ensemble")
    if not numbers:
        return leaves[0]
    different = {id(leaf): np.asarray(leaf) for leaf in leaves}  # members often share weights: converted once
    together = np.stack([different[id(leaf)] for leaf in leaves])
    return together if module is np else from_numpy(together)


def take(tree: Any, index: np.ndarray) -> Any:
    """Return some members of a batch."""
    return jax.tree.map(lambda leaf: from_numpy(np.asarray(leaf)[index]) if eqx.is_array(leaf) else leaf, tree)


def put(tree: Any, index: np.ndarray, part: Any) -> None:
    """Replace some members of a batch of NumPy arrays, in place."""

    def replace(leaf: np.ndarray, new: Any) -> None:
        leaf[index] = np.asarray(new)

    jax.tree.map(replace, tree, part)


def shared_rule(rule: Any, models: Sequence[Transformer], states: Sequence[Any]) -> Any:
    """Return the stop rule with the parameters of the models filled in; raise ValueError if they differ between members."""
    if rule is None:
        return None
    found = [rule.resolve(models[members[0]], states[members[0]]) for members in by_model(models).values()]
    if not all(bool(eqx.tree_equal(found[0], each)) for each in found):
        raise ValueError(f"stop_when: {found[0].kind} depends on the model, and the models differ: run them one by one")
    return found[0]


def by_model(models: Sequence[Transformer]) -> dict[int, list[int]]:
    """Return the indices of the members of each model."""
    groups: dict[int, list[int]] = {}
    for k, model in enumerate(models):
        groups.setdefault(id(model), []).append(k)
    return groups


def flows_of(states: Sequence[Any], models: Sequence[Transformer]) -> tuple[Segment, ...]:
    """Return the flows of all members, with a leading member axis.

    Members often share models. If a flow only copies arrays such as weights from its state, and takes the rest from its
    model, it is built once per model, and the arrays of each state are then inserted.
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
    for members in by_model(models).values():
        admit_all(states[members[0]], [states[k] for k in members], models[members[0]])
    order = {key: place for place, key in enumerate(firsts)}
    index = np.array([order[id(model)] for model in models])
    leaves, structure = jax.tree.flatten(stack([flows for _, flows in firsts.values()], np))
    of_states = jax.tree.leaves(stack(states, np))
    pick = lambda leaf: from_numpy(leaf[index]) if eqx.is_array(leaf) else leaf  # noqa: E731
    both = zip(leaves, sources, strict=True)
    return jax.tree.unflatten(
        structure, [pick(leaf) if source is None else from_numpy(of_states[source]) for leaf, source in both]
    )


def _sources(state: Any, model: Transformer, flows: tuple[Segment, ...]) -> list[int | None] | None:
    """Return, for each array of the flows, the index of the state's array that it is; None if it does not depend on the state.

    Return None instead of the list if some array is computed from the state: that array changes when the flows are rebuilt.
    """
    given = [id(leaf) for leaf in jax.tree.leaves(state)]
    again = jax.tree.map(
        lambda leaf: jnp.array(leaf) if eqx.is_array(leaf) else leaf, state
    )  # equal, but different objects
    sources: list[int | None] = []
    for one, other in zip(jax.tree.leaves(flows), jax.tree.leaves(segments(again, model)), strict=True):
        if id(one) not in given and one is not other and eqx.is_array(one):
            return None
        sources.append(given.index(id(one)) if id(one) in given else None)
    return sources


def log_time_unit(flow: AbstractFlow) -> float:
    """Return the logarithm of the time unit, which all members must share."""
    if not any(map(eqx.is_array, jax.tree.leaves(flow))):
        return float(flow.log_time_unit) + 0.0
    unit = eqx.filter_vmap(lambda flow: flow.log_time_unit)(flow)
    if not np.allclose(unit, unit[0]):
        raise ValueError("model: the models have different time units: give all attentions the same log_unit")
    return float(unit[0]) + 0.0


def _one_thread(function: Callable) -> Callable:
    """Compile a function such that its bits do not depend on the number of threads."""
    return compiled(function, ONE_THREAD)


@_one_thread
@eqx.filter_vmap
def pack(flow: AbstractFlow, state: Any) -> Any:
    return flow.pack(state)


@_one_thread
@eqx.filter_vmap
def unpack(flow: AbstractFlow, y: Any) -> Any:
    return flow.unpack(y)


@_one_thread
@eqx.filter_vmap(in_axes=(eqx.if_array(0), None, eqx.if_array(0)))
def rows_of(flow: AbstractFlow, times: Any, saved: Any) -> Any:
    return jax.vmap(lambda t, y: row(flow, t, y))(times, saved)


last_rows = _one_thread(eqx.filter_vmap(row))


@_one_thread
@eqx.filter_vmap(in_axes=(eqx.if_array(0), eqx.if_array(0), None))
def observe_each(flow: AbstractFlow, y: Any, observe: Callable) -> Any:
    return observe(flow.unpack(y))
