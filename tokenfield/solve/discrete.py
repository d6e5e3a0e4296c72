"""`layers`: the discrete Transformer."""

import json
from collections.abc import Callable, Iterable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._check import count, positive
from ..attention import AbstractAttention
from ..flows.base import admit, is_random, require_closed
from ..flows.tokens import check
from ..results.datasets import to_dataset
from ..results.describe import describe
from ..results.provenance import provenance
from ..results.trajectory import Trajectory
from ..states import Tokens
from ..transformer import Transformer, only_transformer


def layers(
    model: Transformer | Sequence[Transformer] | Callable[[int], Transformer],
    state: Tokens,
    depth: int | None = None,
    step: float = 1.0,
) -> Trajectory:
    """Tokens through a stack of layers, `x <- norm(x, step * sublayer)` for attention and then the MLP.

    `step = 1` is a Transformer layer; as `step -> 0` with `depth = t1/step` the layers tend to the flow. Layer l
    acts at time `t = l step`. Each normalization rule's file has its layer (FORMULAS §2, §7).

    Args:
        model: one Transformer for all layers, a list with one for each, or a function from the layer's number.
        state: the tokens before the first layer.
        depth: number of layers; with a list of models, their number.
        step: the step h.

    Returns:
        A `Trajectory` with `depth + 1` states at times `l * step`.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PreLN())
        >>> tkf.layers(model, tkf.uniform_sphere(64, 8, seed=0), depth=24).plot()
    """
    step = positive("step", step)
    if not isinstance(state, Tokens):
        raise ValueError(f"layers moves Tokens, got {type(state).__name__}: sample it to tokens first")
    models = stack(model, depth)
    for each in {id(each): each for each in models}.values():
        if is_random(state, each):
            raise ValueError("layers has no noise: a Transformer with noise runs by simulate(..., seed=...)")
        if each.fisher_rao is not None:
            raise ValueError("layers keeps the weights of tokens: a Transformer with fisher_rao runs by simulate")
        require_closed(state, each)
        check(state, each)
    admit(state, models[0])
    x, t = state.x, jnp.zeros(())
    saved = [x]
    for index, each in enumerate(models):
        x = _layer(each, t + index * step, x, state.weights, state.positions, jnp.asarray(step))
        saved.append(x)
    repeat = lambda a: np.broadcast_to(np.asarray(a), (len(saved), state.n))  # noqa: E731
    everything = np.stack([np.asarray(x) for x in saved]), repeat(state.weights), repeat(state.positions)
    stacked = eqx.tree_at(lambda s: (s.x, s.weights, s.positions), state, everything)
    times = step * np.arange(len(saved))
    different = any(each is not models[0] for each in models)
    config = {
        "model": [describe(each) for each in models] if different else describe(models[0]),
        "depth": len(models),
        "step": step,
    }
    attributes = {
        **provenance(),
        "config": json.dumps(config),
        "events": "[]",
        "log_time_unit": 0.0 - float(models[0].attention.log_unit),
        "steps": len(models),
        "rejected_steps": 0,
    }
    return Trajectory(to_dataset(stacked, times).assign_attrs(attributes))


def stack(model, depth) -> list[Transformer]:
    if isinstance(model, Transformer):
        if depth is None:
            raise ValueError("depth must be given when one model serves all layers")
        return [model] * count("depth", depth)
    if callable(model) and not isinstance(model, AbstractAttention):
        if depth is None:
            raise ValueError("depth must be given when models come from a function")
        return [only_transformer(model(index)) for index in range(count("depth", depth))]
    models = list(model) if isinstance(model, Iterable) else []
    if not models or not all(isinstance(each, Transformer) for each in models):
        wanted = "a Transformer, a list of them, or a function from the layer's number to one"
        raise ValueError(f"model must be {wanted}, got {type(model).__name__}")
    if depth is not None and count("depth", depth) != len(models):
        raise ValueError(f"depth must be the number of models, {len(models)}, or be left out, got {depth}")
    return models


@eqx.filter_jit
def _layer(model: Transformer, t, x, weights, positions, step):
    for sublayer in model.sublayers(t, weights, positions):
        x = model.norm.layer(t, x, sublayer, step)
    return x
