"""`layers`: the discrete Transformer."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from .._check import count, positive
from .._cost import check_stack
from .._jax import in_double
from .._lock import locking
from .._memory import refuse_large
from .._xla.programs import bounded
from ..flows import Reduction, Segment
from ..flows.layers import layer_flow
from ..flows.sphere import check_directions
from ..normalization import AbstractSphereNorm
from ..results.trajectory import Trajectory
from ..solver.layers import Layers
from ..states import AbstractDensity, Equiangular, Gaussian, Tokens
from ..states.base import require_one
from ..transformer import Transformer, only_transformer
from .ending import end_event, how_ended
from .finish import trajectory_of
from .refining import integrate_resolved
from .session import Session
from .smooth import Options, Plan


@in_double
@bounded
@locking("checkpoint")
def layers(
    model: Transformer | Sequence[Transformer] | Callable[[int], Transformer],
    state: Tokens | Equiangular | Gaussian | AbstractDensity,
    depth: int | None = None,
    step: float = 1.0,
    *,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = 30.0,
) -> Trajectory:
    """Run tokens through a stack of layers, `x <- norm(x, step * sublayer)` for attention and then the MLP.

    `step = 1` is a standard Transformer layer. As `step -> 0` with `depth = t1/step`, the layers tend to the flow. Layer l
    acts at time `t = l step`. Each norm defines its own layer (FORMULAS §2, §7).

    Args:
        model: one Transformer for all layers, a list with one per layer, or a function from the layer index to a Transformer.
        state: the tokens before the first layer; or `Equiangular` or `Gaussian`, if layers preserve this form; or a density
            under `PostLN()`, whose points are moved as tokens. Norms that keep tokens on a sphere accept tokens of any
            positive length: the first layer reads them unchanged and returns tokens on the sphere.
        depth: number of layers; with a list of models, the length of the list.
        step: the step size h.
        progress, checkpoint, checkpoint_every: as for `simulate`.

    Returns:
        A `Trajectory` with `depth + 1` states at times `l * step`. Overflow ends it early, with an event "blow_up" at the
        layer that overflows. A token that cannot be normalized because it is 0 (`x + A(x)` with V = -1 may be 0) also ends it
        early, with an event "vanished". Layers of a density end with an event "fold" if a layer maps different tokens to one
        point (the step is too large), and with "resolution" if the density is too close to Dirac masses.

    Example:
        >>> import tokenfield as tkf
        >>> model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PreLN())
        >>> tkf.layers(model, tkf.uniform_sphere(64, 8, seed=0), depth=24).plot()
        <Sheet size 852x480 with 4 Axes>
    """
    require_one("layers", state)
    step = positive("step", step)
    models = models_of_layers(model, depth)
    path = None if checkpoint is None else Path(checkpoint)
    session = Session(progress, path, checkpoint_every)
    outcome, plan = integrate_resolved(
        lambda state: _plan(models, state, step, progress), state, session, (step, "layers")
    )
    status, _ = how_ended(outcome, plan.options.method)
    events = end_event(status, step * (outcome.steps + 1), None, outcome.flow)
    described = models if len(plan.segments) > 1 else models[0]
    return trajectory_of(described, Reduction(state, None), outcome, plan.options, events)


def _plan(models: list[Transformer], state: Any, step: float, progress: bool | None) -> Plan:
    """Return the plan of a stack of layers: one segment, or one for each layer if they differ."""
    flows = {key: layer_flow(state, each) for key, each in {id(each): each for each in models}.items()}
    if isinstance(state, Tokens):
        if isinstance(models[0].norm, AbstractSphereNorm):
            check_directions(state, models[0].norm)
        check_stack(state, len(models), progress)
    ends = step * np.arange(1, len(models) + 1) if len(flows) > 1 else [np.inf]
    parts = tuple(Segment(float(end), flows[id(each)]) for end, each in zip(ends, models, strict=False))
    times = step * np.arange(len(models) + 1)
    options = Options(float(times[-1]), times, 0.0, 1.0, Layers(step), None, len(models) + 1)
    return Plan(options, parts, parts[0].flow.pack(state))


def models_of_layers(model: Any, depth: int | None) -> list[Transformer]:
    """Return the model of each layer, from the arguments of `layers`; raise ValueError if they do not fit each other."""
    if isinstance(model, Transformer):
        depth = model.length if depth is None else depth
        if depth is None:
            raise ValueError("depth must be given when model is a single Transformer")
        depth = count("depth", depth)
        refuse_large("depth", depth)
        if model.final is not None and model.length is not None and depth > model.length:
            raise ValueError(
                f"depth must be at most {model.length}, after which the model ends with its final map, got {depth}: loop its "
                "layers by model.repeated(k)"
            )
        return [model] * depth
    if callable(model) and not isinstance(
        model, eqx.Module
    ):  # an attention module is callable, but not a function of the layer index
        if depth is None:
            raise ValueError("depth must be given when model is a function of the layer index")
        depth = count("depth", depth)
        refuse_large("depth", depth)
        try:
            return [only_transformer(model(index)) for index in range(depth)]
        except TypeError as error:
            raise ValueError(f"model must return a Transformer for every layer index: {error}") from error
    models = list(model) if isinstance(model, Iterable) and getattr(model, "ndim", True) else []
    if not models or not all(isinstance(each, Transformer) for each in models):
        wanted = "a Transformer, a list of them, or a function from the layer index to one"
        raise ValueError(f"model must be {wanted}, got {type(model).__name__}")
    if depth is not None and count("depth", depth) != len(models):
        raise ValueError(f"depth must be the number of models, {len(models)}, or None, got {depth}")
    return models
