"""`layers`: the discrete Transformer."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._check import count, handed_over, positive
from ..flows.base import admit, is_random, require_closed
from ..flows.tokens import check
from ..results.datasets import to_dataset
from ..results.describe import describe
from ..results.provenance import provenance
from ..results.trajectory import Trajectory
from ..states import Tokens
from ..transformer import Transformer, only_transformer
from .checkpoint import Keeper, fingerprint
from .progress import Progress
from .run import SolverError


def layers(
    model: Transformer | Sequence[Transformer] | Callable[[int], Transformer],
    state: Tokens,
    depth: int | None = None,
    step: float = 1.0,
    *,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = 30.0,
) -> Trajectory:
    """Tokens through a stack of layers, `x <- norm(x, step * sublayer)` for attention and then the MLP.

    `step = 1` is a Transformer layer; as `step -> 0` with `depth = t1/step` the layers tend to the flow. Layer l
    acts at time `t = l step`. Each normalization rule's file has its layer (FORMULAS §2, §7).

    Args:
        model: one Transformer for all layers, a list with one for each, or a function from the layer's number.
        state: the tokens before the first layer.
        depth: number of layers; with a list of models, their number.
        step: the step h.
        progress, checkpoint, checkpoint_every: as for `simulate`.

    Returns:
        A `Trajectory` with `depth + 1` states at times `l * step`. Numbers beyond all range end it early, with an event
        "blow_up" at the layer that would give them.

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
    identity = lambda: fingerprint(models, state, step)  # noqa: E731
    keeper = Keeper(None if checkpoint is None else Path(checkpoint), identity, checkpoint_every)
    saved, blown = _through(models, state, step, keeper, progress)
    repeat = lambda a: np.broadcast_to(np.asarray(a), (len(saved), state.n))  # noqa: E731
    everything = np.stack(saved), repeat(state.weights), repeat(state.positions)
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
        "events": json.dumps([{"kind": "blow_up", "time": step * len(saved)}] if blown else []),
        "log_time_unit": 0.0 - float(models[0].attention.log_unit),
        "steps": len(saved) - 1,
        "rejected_steps": 0,
    }
    return Trajectory(to_dataset(stacked, times).assign_attrs(attributes))


def _through(
    models: list[Transformer], state: Tokens, step: float, keeper: Keeper, progress: bool | None
) -> tuple[list[np.ndarray], bool]:
    """The tokens before the first layer and after each, and whether they left all range on the way."""
    resumed = keeper.read()
    saved = list(resumed[1][0]) if resumed else [np.asarray(state.x)]
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    apply = lambda index, x: np.asarray(  # noqa: E731
        _layer(models[index], number(index * step), handed_over(x), state.weights, state.positions, number(step))
    )
    try:
        with Progress(progress, "simulating", len(models), "layers") as bar:
            for index in range(len(saved) - 1, len(models)):
                x = apply(index, saved[-1])
                if not np.isfinite(x).all():
                    _confirm_blow_up(apply(index, saved[-1] / np.abs(saved[-1]).max()), index)
                    return saved, True
                saved.append(x)
                bar.update(index + 1)
                if keeper.due():
                    keeper.write(index + 1, np.stack(saved))
    finally:
        if keeper.path is not None:
            keeper.write(len(saved) - 1, np.stack(saved))
    return saved, False


def _confirm_blow_up(of_short_tokens: np.ndarray, index: int) -> None:
    """Raise if a layer gives no numbers for short tokens either: then its parameters are at fault, not their growth."""
    if not np.isfinite(of_short_tokens).all():
        raise SolverError(
            f"layer {index} gives what is not a number: a function of time such as A(t) does, or scores leave the range of "
            "double precision"
        )


def stack(model, depth) -> list[Transformer]:
    if isinstance(model, Transformer):
        if depth is None:
            raise ValueError("depth must be given when one model serves all layers")
        return [model] * count("depth", depth)
    if callable(model) and not isinstance(model, eqx.Module):  # an attention is not a function of the layer
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
