"""`simulate_many`: many starts (and models) of one shape, side by side in one compiled program."""

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from .._check import count, positive
from ..flows import AbstractFlow, AbstractNoisyFlow, Segment, admit_all, is_random, prepare, prepare_all, segments
from ..results.describe import describe
from ..results.ensemble import Ensemble, stacked_dataset
from ..results.provenance import provenance
from ..transformer import Transformer
from . import loop, stochastic
from .continuous import ATOL, BLOW_UP_RTOL, RTOL, confirm_blow_up, save_times
from .progress import Progress
from .run import SolverError
from .steppers import Stepper, stepper
from .stop import AbstractStopRule, OnFlow, as_rule

CHUNK = 16
SHRINK, FEWEST = 4, 16  # a batch is cut to a quarter when no more of its members run, but not below 16
REFILL = 8  # an eighth of the members must have ended before others take their places


def _one_thread(function: Callable) -> Callable:
    """Compiled such that its bits do not depend on the number of threads."""
    return eqx.filter_jit(function, compiler_options=loop.ONE_THREAD)  # type: ignore[call-overload]


def simulate_many(
    model: Transformer | Sequence[Transformer],
    states: Any,
    t1: float,
    *,
    save_at: int | ArrayLike | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    seeds: ArrayLike | None = None,
    stop_when: AbstractStopRule | Callable | None = None,
    method: str | None = None,
    dt: float | None = None,
    progress: bool | None = None,
    max_steps: int = 1_000_000,
) -> Ensemble:
    """`simulate` for many states of one kind and size at once, each with its own steps, stop and blow-up.

    Args:
        model: one Transformer for all, or one for each state (equal but for the values of their arrays).
        states: the starts, e.g. a list of `Gaussian` of one dimension; with seeds also one start for all.
        seeds: for random models (tokens with noise): one seed for each member.
        t1, save_at, rtol, atol, stop_when, method, progress, max_steps: as for `simulate`.
        dt: the fixed step of runs with noise, as for `simulate`; by default what the member that needs the smallest has.

    Returns:
        An `Ensemble`: `.dataset` has a first axis `member`; `ensemble[k]` is the `Trajectory` of member k.

    Example:
        >>> import tokenfield as tkf
        >>> starts = [tkf.Equiangular(rho, n=32) for rho in (0.0, 0.3, 0.6)]
        >>> tkf.simulate_many(tkf.Transformer(tkf.Softmax(beta=4.0), tkf.PostLN()), starts, t1=5.0)
    """
    if isinstance(states, eqx.Module):
        if seeds is None:
            raise ValueError("states must be a list; one state for all members needs seeds for a model with noise")
        states = [states] * np.size(seeds)
    states = list(states)
    if not states:
        raise ValueError("states must hold at least one state")
    models = [model] * len(states) if isinstance(model, Transformer) else list(model)
    if len(models) != len(states):
        raise ValueError(
            f"model must be one Transformer or one for each of the {len(states)} states, got {len(models)}"
        )
    t1 = positive("t1", t1)
    if any(is_random(state, each) for state, each in zip(states, models, strict=True)):
        stochastic.refuse(stop_when=stop_when is not None, rtol=rtol != RTOL, atol=atol != ATOL)
        return _simulate_noisy(models, states, t1, save_times(save_at, t1), seeds, method, dt, max_steps, progress)
    if seeds is not None or dt is not None:
        raise ValueError(
            f"{'seeds' if dt is None else 'dt'} is for models with noise, but nothing in this model is random"
        )
    method = "tsit5" if method is None else method
    rtol, atol = positive("rtol", rtol, or_zero=True), positive("atol", atol)
    chosen, max_steps = stepper(method), count("max_steps", max_steps)
    if not chosen.adaptive:
        raise ValueError(f"method {method!r} has no error control: use simulate with a fixed step")
    times = save_times(save_at, t1)
    rule = as_rule(stop_when)
    rule = None if rule is None else rule.resolve(models[0], states[0])

    smalls, lifts, flows, carry = solve_many(models, states, t1, times, rtol, atol, chosen, rule, max_steps, progress)
    saved = jax.tree.map(np.asarray, _unpack_saved(flows[-1].flow, carry.saved))
    final = jax.tree.map(np.asarray, _unpack(flows[-1].flow, carry.y))
    member = lambda tree, k: jax.tree.map(lambda leaf: leaf[k], tree)  # noqa: E731
    if any(small is not state for small, state in zip(smalls, states, strict=True)):
        once = lambda state: jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)  # noqa: E731
        final = stack([member(lift(once(member(final, k))), 0) for k, lift in enumerate(lifts)], np)
        saved = stack([lift(member(saved, k)) for k, lift in enumerate(lifts)], np)
    unit = _log_time_unit(flows[-1].flow)
    kinds = {loop.STOPPED: rule.kind if rule else "", loop.UNDERFLOW: "blow_up"}
    ends = [(kinds.get(int(status)), float(t)) for status, t in zip(carry.status, carry.t, strict=True)]
    config = {
        "model": describe(models[0]) if isinstance(model, Transformer) else [describe(each) for each in models],
        "t1": t1,
        "rtol": rtol,
        "atol": atol,
        "method": method,
        "stop_when": describe(rule),
        "max_steps": max_steps,
    }
    attributes = {
        **provenance(),
        "config": json.dumps(config),
        "events": json.dumps([[] if kind is None else [{"kind": kind, "time": t}] for kind, t in ends]),
        "log_time_unit": unit,
        "steps": int(carry.steps.sum()),
        "rejected_steps": int(carry.rejected.sum()),
    }
    counts, reached = np.asarray(carry.saved_count), np.asarray(carry.t)
    return Ensemble(stacked_dataset(saved, times, counts, final, reached).assign_attrs(attributes))


def solve_many(
    models: Sequence[Transformer],
    states: Sequence[Any],
    t1: float,
    times: np.ndarray,
    rtol: float,
    atol: float,
    chosen: Stepper,
    rule: AbstractStopRule | None,
    max_steps: int,
    progress: bool | None,
    observe: Callable | None = None,
    width: int | None = None,
) -> tuple[Sequence[Any], Sequence[Callable], tuple[Segment, ...], loop.Carry]:
    """The reduced starts, the ways back from them, the flows, and the members at their ends."""
    smalls, small_models, lifts = zip(*_prepared(states, models), strict=True)
    flows = _flows(smalls, small_models)
    y0 = _pack(flows[0].flow, stack(smalls))
    carry = _run(flows, y0, t1, times, rtol, atol, chosen, rule, max_steps, progress, observe, width)
    blown = np.flatnonzero(np.asarray(carry.status) == loop.UNDERFLOW)
    for k in blown:
        one = segments(smalls[k], small_models[k])[-1].flow
        confirm_blow_up(one, float(carry.t[k]), jax.tree.map(lambda leaf, k=k: leaf[k], carry.y))
    if len(blown) and rtol + atol > BLOW_UP_RTOL:
        tight = BLOW_UP_RTOL, min(atol, 1e-2 * BLOW_UP_RTOL)
        again = _run(flows, y0, t1, times, *tight, chosen, rule, max_steps, progress, observe, width)
        carry = jax.tree.map(np.array, carry)
        _put(carry, blown, _take(again, blown))  # the others are as they would be by themselves
    return smalls, lifts, flows, carry


def _simulate_noisy(
    models: list[Transformer],
    states: list[Any],
    t1: float,
    times: np.ndarray,
    seeds: Any,
    method: str | None,
    dt: float | None,
    max_steps: int,
    progress: bool | None,
) -> Ensemble:
    """Members with kicks of their own, in steps that they share."""
    if seeds is None:
        stochastic.checked_seed(None, models[0], "seeds")
    if np.ndim(seeds) != 1 or len(np.asarray(seeds)) != len(states):
        raise ValueError(f"seeds must hold one seed for each of the {len(states)} members, got {seeds!r}")
    numbers = [stochastic.checked_seed(seed, models[0], "seeds") for seed in np.asarray(seeds).tolist()]
    method, max_steps = stochastic.checked_method(method), count("max_steps", max_steps)
    made: dict[tuple[int, int], tuple[Any, Transformer, Any, float]] = {}
    pairs = [(id(state), id(each)) for state, each in zip(states, models, strict=True)]
    for pair, state, each in zip(pairs, states, models, strict=True):
        if pair not in made:
            small, small_model, _ = prepare(state, each, stochastic.SMALL)
            flow = segments(small, small_model)[0].flow
            if not isinstance(flow, AbstractNoisyFlow):
                raise ValueError("either all models must have noise or none")
            made[pair] = small, small_model, flow.retract(flow.pack(small)), stochastic.default_dt(flow, small, t1)
    smalls, small_models, starts, steps_of = zip(*(made[pair] for pair in pairs), strict=True)
    flows = _flows(smalls, small_models)
    dt = min(steps_of) if dt is None else positive("dt", dt)
    course = stochastic.Course(t1, times, dt, method, max_steps, progress)
    y0 = stack(starts)
    keys = jax.vmap(jax.random.key)(jnp.asarray(numbers))
    saved, y, steps = stochastic.follow(flows, y0, keys, course, many=True)
    saved = jax.tree.map(np.asarray, _unpack_saved(flows[-1].flow, saved))
    final = jax.tree.map(np.asarray, _unpack(flows[-1].flow, y))
    attributes = stochastic.record(models[0], _log_time_unit(flows[-1].flow), course, steps * len(states))
    config = json.loads(attributes["config"]) | {"seeds": numbers}
    if any(each is not models[0] for each in models):
        config["model"] = [describe(each) for each in models]
    attributes |= {"config": json.dumps(config), "events": json.dumps([[] for _ in states])}
    counts, ends = np.full(len(states), len(times)), np.full(len(states), t1)
    dataset = stacked_dataset(saved, times, counts, final, ends).assign_coords(seed=("member", numbers))
    return Ensemble(dataset.assign_attrs(attributes))


def _log_time_unit(flow: AbstractFlow) -> float:
    """The unit of time that all members share."""
    unit = eqx.filter_vmap(lambda flow: flow.log_time_unit)(flow)
    if not np.allclose(unit, unit[0]):
        raise ValueError("the models run in different units of time: give their attentions one log_unit")
    return float(unit[0]) + 0.0


def _flows(states: Sequence[Any], models: Sequence[Transformer]) -> tuple[Segment, ...]:
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
    sources = [_sources(states[k], models[k], flows) for k, flows in firsts.values()]
    if any(source is None or source != sources[0] for source in sources):
        return stack([segments(state, model) for state, model in zip(states, models, strict=True)])
    for members in _by_model(models).values():
        admit_all(states[members[0]], [states[k] for k in members], models[members[0]])
    order = {key: place for place, key in enumerate(firsts)}
    index = np.array([order[id(model)] for model in models])
    leaves, structure = jax.tree.flatten(stack([flows for _, flows in firsts.values()], np))
    of_states = jax.tree.leaves(stack(states, np))
    pick = lambda leaf: jnp.asarray(leaf[index]) if eqx.is_array(leaf) else leaf  # noqa: E731
    both = zip(leaves, sources[0] or (), strict=True)
    return jax.tree.unflatten(
        structure, [pick(leaf) if source is None else jnp.asarray(of_states[source]) for leaf, source in both]
    )


def _by_model(models: Sequence[Transformer]) -> dict[int, list[int]]:
    """The members of each model."""
    groups: dict[int, list[int]] = {}
    for k, model in enumerate(models):
        groups.setdefault(id(model), []).append(k)
    return groups


def _prepared(states: Sequence[Any], models: Sequence[Transformer]) -> list[tuple[Any, Transformer, Callable]]:
    """`prepare` for all members, once for each model where its states can share it."""
    prepared: list[Any] = [None] * len(states)
    for members in _by_model(models).values():
        shared = prepare_all(states[members[0]], [states[k] for k in members], models[members[0]])
        for k, each in zip(members, shared, strict=True):
            prepared[k] = each
    return prepared


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
    return module.asarray(np.stack([np.asarray(leaf) for leaf in leaves])) if numbers else leaves[0]


def _run(
    flows: tuple[Segment, ...],
    y: Any,
    t1: float,
    times: np.ndarray,
    rtol: float,
    atol: float,
    chosen: Stepper,
    rule: AbstractStopRule | None,
    max_steps: int,
    progress: bool | None,
    observe: Callable | None = None,
    width: int | None = None,
) -> loop.Carry:
    """All segments, all members, in chunks of trial steps."""
    number = lambda value: jnp.asarray(value, float)  # noqa: E731
    stop = None if rule is None else OnFlow(rule)
    start = loop.start_many if observe is None else loop.start_many_alone
    first = int(len(times) > 0 and times[0] == 0)
    saved = jax.tree.map(
        lambda leaf: _buffer(leaf, len(times), first), y if observe is None else _observe(flows[0].flow, y, observe)
    )
    done: loop.Carry | None = None
    with Progress(progress, "simulating", t1) as bar:
        for k, segment in enumerate(flows):
            end = min(segment.until, t1)
            jumps = k + 1 < len(flows) and end == segment.until
            settings = loop.Settings(
                t1=number(end),
                t_last=number(np.nextafter(end, -np.inf) if jumps else end),
                save_at=number(times),
                rtol=number(rtol),
                atol=number(atol),
                dt=None,
                halvings=50 if observe is None else _halvings(rtol),
            )
            if done is None:
                t0, saved_count = number(0.0), jnp.full(len(jax.tree.leaves(y)[0]), first)
                carry = start(segment.flow, chosen, settings, t0, y, saved, saved_count)
            else:
                t0 = number(flows[k - 1].until)
                fresh = start(segment.flow, chosen, settings, t0, done.y, done.saved, done.saved_count)
                fresh = eqx.tree_at(lambda c: (c.steps, c.rejected), fresh, (done.steps, done.rejected))
                going = done.status == loop.FINISHED
                carry = _choose(going, fresh, done)
            carry = _advance(segment.flow, chosen, settings, stop, carry, max_steps, bar, observe, width)
            done = carry
            if end >= t1:
                break
    assert done is not None
    return done


def _advance(
    flow: AbstractFlow,
    chosen: Stepper,
    settings: loop.Settings,
    stop: OnFlow | None,
    carry: loop.Carry,
    max_steps: int,
    bar: Progress,
    observe: Callable | None,
    width: int | None,
) -> loop.Carry:
    """All members to the end of a segment, `width` of them at a time.

    A member that has ended makes room for one that waits. When none waits and most have ended, the others go on in a
    smaller batch.
    """
    advance = loop.advance_many if observe is None else loop.advance_many_alone
    whole, whole_flow = jax.tree.map(np.array, carry), flow
    waiting = np.flatnonzero(whole.status == loop.RUNNING)
    size = min(width or len(whole.t), len(whole.t))
    active, waiting = waiting[:size], waiting[size:]
    active = np.concatenate([active, np.setdiff1d(np.arange(len(whole.t)), active)[: size - len(active)]])
    if not np.array_equal(active, np.arange(len(whole.t))):
        carry, flow = _take(whole, active), _take(whole_flow, active)
    while len(going := np.flatnonzero(np.asarray(carry.status) == loop.RUNNING)) or len(waiting):
        if int((carry.steps + carry.rejected).max()) >= max_steps:
            raise SolverError(f"max_steps = {max_steps} steps were not enough for a member: allow more of them")
        ended = np.setdiff1d(np.arange(len(active)), going)
        size = len(active) // SHRINK
        if len(waiting) and len(ended) >= len(active) // REFILL:
            _put(whole, active, carry)
            some = ended[: len(waiting)]
            active[some], waiting = waiting[: len(some)], waiting[len(some) :]
            carry, flow = _take(whole, active), _take(whole_flow, active)
        elif not len(waiting) and len(going) <= size and size >= FEWEST:
            _put(whole, active, carry)
            active = active[np.sort(np.concatenate([going, ended[: size - len(going)]]))]
            carry, flow = _take(whole, active), _take(whole_flow, active)
        before, begun = int((carry.steps + carry.rejected).sum()), time.monotonic()
        later = "now" if observe is None else "later"
        carry = advance(flow, chosen, settings, stop, carry, jnp.asarray(CHUNK), observe, later)
        taken = int((carry.steps + carry.rejected).sum()) - before
        bar.update(float(carry.t.mean()), taken / max(time.monotonic() - begun, 1e-9))
    _put(whole, active, carry)
    hit = np.flatnonzero(whole.status == loop.HIT)
    size = min(width or len(whole.t), len(whole.t))
    for first in range(0, len(hit), size):
        some = hit[first : first + size]
        padded = np.concatenate([some, np.full(size - len(some), some[-1])])
        part = _take(whole, padded), _take(whole_flow, padded)
        part = advance(part[1], chosen, settings, stop, part[0], jnp.asarray(0), observe, "only")
        _put(whole, some, jax.tree.map(lambda leaf, count=len(some): leaf[:count], part))
    return jax.tree.map(jnp.asarray, whole)


def _halvings(rtol: float) -> int:
    """Enough that the moment of a stop is known to a small part of the tolerance."""
    return min(50, 12 + math.ceil(-math.log2(max(rtol, 1e-12))))


def _take(tree: Any, index: np.ndarray) -> Any:
    """Some members of a batch."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[index]) if eqx.is_array(leaf) else leaf, tree)


def _put(tree: Any, index: np.ndarray, part: Any) -> None:
    """Replace some members of a batch, whose arrays are NumPy's."""

    def put(leaf: np.ndarray, new: Any) -> None:
        leaf[index] = np.asarray(new)

    jax.tree.map(put, tree, part)


def _buffer(first: Any, times: int, count: int) -> jax.Array:
    """Room for what is saved of all members, the first time filled in if `count` is 1."""
    buffer = np.zeros((len(first), times, *first.shape[1:]), first.dtype)
    buffer[:, :count] = np.asarray(first)[:, None]
    return jnp.asarray(buffer)


@_one_thread
@eqx.filter_vmap(in_axes=(eqx.if_array(0), eqx.if_array(0), None))
def _observe(flow: AbstractFlow, y: Any, observe: Callable) -> Any:
    return observe(flow.unpack(y))


def _choose(condition, yes, no):
    """Member by member."""
    pick = lambda a, b: jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)  # noqa: E731
    return jax.tree.map(pick, yes, no)


@_one_thread
@eqx.filter_vmap
def _pack(flow: AbstractFlow, state: Any) -> Any:
    return flow.pack(state)


@_one_thread
@eqx.filter_vmap
def _unpack(flow: AbstractFlow, y: Any) -> Any:
    return flow.unpack(y)


@_one_thread
@eqx.filter_vmap
def _unpack_saved(flow: AbstractFlow, saved: Any) -> Any:
    return jax.vmap(flow.unpack)(saved)
