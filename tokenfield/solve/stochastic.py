"""Random runs: fixed steps of a drift and of kicks, with a retraction at the end of each."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._check import count
from ..flows import AbstractNoisyFlow, Segment, prepare, segments
from ..results.datasets import to_dataset
from ..results.describe import describe
from ..results.provenance import provenance
from ..results.trajectory import Trajectory
from ..transformer import Transformer
from . import checkpoint
from .checkpoint import NOWHERE, Keeper
from .loop import WIDE_VECTORS, each, finite
from .progress import Progress
from .run import CHUNK_SECONDS, SolverError

STEPS_PER_RATE = 20  # default steps in the time of the fastest rate
FEWEST_STEPS = 100  # default steps of a run
SMALL = 1e-6  # allowed error of a velocity, far below that of a step


class Scheme(NamedTuple):
    """`step(flow, t, t_end, h, y, keys)` from t to t + h with so many keys; `t_end` is the last time to ask the field at."""

    kicks: int
    step: Callable[..., Any]


def euler_step(flow: AbstractNoisyFlow, t, t_end, h, y, keys):
    """Projected Euler–Maruyama, `y <- retract(y + h velocity + kick)`: weak order 1."""
    return flow.retract(plus(y, (h, flow.velocity(t, y)), (1.0, flow.kick(keys[0], t, y, h))))


def heun_step(flow: AbstractNoisyFlow, t, t_end, h, y, keys):
    """Half a kick, Heun's step of the drift, half a kick (Strang): weak order 2 if the kicks are (`SphereNoise`,
    `EuclideanNoise`), else 1."""
    y = flow.retract(plus(y, (1.0, flow.kick(keys[0], t, y, h / 2))))
    first = flow.velocity(t, y)
    second = flow.velocity(t_end, flow.retract(plus(y, (h, first))))
    y = flow.retract(plus(y, (h / 2, first), (h / 2, second)))
    return flow.retract(plus(y, (1.0, flow.kick(keys[1], t_end, y, h / 2))))


SCHEMES = {"heun": Scheme(2, heun_step), "euler": Scheme(1, euler_step)}


def plus(y, *terms):
    """`y + sum_k c_k v_k` of trees."""
    for c, v in terms:
        y = jax.tree.map(lambda a, b, c=c: a + c * b, y, v)
    return y


class Grid(eqx.Module):
    """Equal steps within each of m intervals, which end at the times at which states are kept."""

    begin: Float[Array, " m"]
    end: Float[Array, " m"]
    first: Int[Array, " m"]
    """The number, in the whole run, of the first step of the interval."""
    steps: Int[Array, " m"]
    t_last: Float[Array, ""]
    """The last time at which the field may be asked for: just before the end when the field jumps there."""


class Carry(eqx.Module):
    """All that a random run is at one moment."""

    step: Int[Array, ""]
    interval: Int[Array, ""]
    y: Any
    saved: Any


def advance_(flow: AbstractNoisyFlow, method: str, grid: Grid, key: Array, carry: Carry, until: Array) -> Carry:
    """Go on to step `until`. Each step has its own key, so that it makes no difference where a run is cut."""
    scheme = SCHEMES[method]

    def interval(c: Carry) -> Carry:
        """To the end of an interval: its steps are of one length, and what is kept is written once."""
        j = c.interval
        first, last = grid.first[j], grid.first[j] + grid.steps[j]
        h, stop = (grid.end[j] - grid.begin[j]) / grid.steps[j], jnp.minimum(until, last)

        def step(k, y):
            t = grid.begin[j] + (k - first) * h
            keys = jax.random.split(jax.random.fold_in(key, k), scheme.kicks)
            return scheme.step(flow, t, jnp.minimum(t + h, grid.t_last), h, y, keys)

        y = jax.lax.fori_loop(c.step, stop, step, c.y)
        keep = lambda buffer, leaf: jax.lax.dynamic_update_index_in_dim(buffer, leaf, j, 0)  # noqa: E731
        return Carry(stop, j + (stop == last), y, jax.tree.map(keep, c.saved, y))

    return jax.lax.while_loop(lambda c: c.step < until, interval, carry)


advance = eqx.filter_jit(advance_, compiler_options=WIDE_VECTORS)  # type: ignore[call-overload]
# The same for many members side by side: flow, key, unknowns and what is saved have a leading axis.
_MEMBERS = Carry(None, None, 0, 0)  # type: ignore[arg-type]
advance_many = eqx.filter_jit(
    eqx.filter_vmap(advance_, in_axes=(each, None, None, 0, _MEMBERS, None), out_axes=_MEMBERS),
    compiler_options=WIDE_VECTORS,
)  # type: ignore[call-overload]


class Course(NamedTuple):
    """What defines a random run beside its flow, its start and its keys."""

    t1: float
    times: np.ndarray
    dt: float
    method: str
    max_steps: int
    progress: bool | None


def follow(
    parts: Sequence[Segment], y: Any, key: Array, course: Course, many: bool = False, keeper: Keeper = NOWHERE
) -> tuple[Any, Any, int]:
    """The unknowns at the save times, at t1, and the number of steps. With `many` all have a leading axis.

    A run that its keeper has goes on from there."""
    axis, t, done = int(many), 0.0, 0
    kept = [jax.tree.map(lambda leaf: jnp.expand_dims(leaf, axis), y)] if 0 in course.times else []
    resumed = keeper.read()
    first = resumed[0] if resumed else 0
    with Progress(course.progress, "simulating", course.t1) as bar:
        for k, part in enumerate(parts):
            end = min(part.until, course.t1)
            jumps = k + 1 < len(parts) and end == part.until
            grid = _grid(t, end, course.times, course.dt, done, jumps)
            total = done + int(grid.steps.sum())
            if total > course.max_steps:
                raise SolverError(
                    f"a run to t1 = {course.t1:g} with dt = {course.dt:.3g} takes more than max_steps = {course.max_steps} "
                    "steps: allow more of them or take a larger dt"
                )
            if k < first:
                t, done = end, total
                continue
            carry = _start(y, len(grid.end), done, axis)
            if resumed and k == first:
                carry, kept = checkpoint.restore((carry, [y] * (k + len(kept))), resumed[1])
            keep = lambda carry, k=k: keeper.write(k, (carry, kept))  # noqa: E731, B023
            carry = _chunks(part.flow, grid, key, carry, total, course, many, bar, keep, keeper.due)
            y, t, done = carry.y, end, total
            wanted = np.isin(np.asarray(grid.end), course.times)
            kept.append(jax.tree.map(lambda leaf, w=wanted: np.compress(w, np.asarray(leaf), axis), carry.saved))
            if end >= course.t1:
                break
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis), *kept), y, done


def _grid(begin: float, end: float, times: np.ndarray, dt: float, done: int, jumps: bool) -> Grid:
    ends = np.unique([*times[(times > begin) & (times <= end)], end])
    begins = np.concatenate([[begin], ends[:-1]])
    steps = np.maximum(np.ceil((ends - begins) / dt * (1 - 1e-12)), 1).astype(int)
    first = done + np.concatenate([[0], np.cumsum(steps)[:-1]])
    t_last = np.nextafter(end, -np.inf) if jumps else end
    return Grid(*map(jnp.asarray, (begins, ends, first, steps, t_last)))


def _start(y: Any, intervals: int, done: int, axis: int) -> Carry:
    room = lambda leaf: jnp.zeros((*leaf.shape[:axis], intervals, *leaf.shape[axis:]), leaf.dtype)  # noqa: E731
    return Carry(jnp.asarray(done), jnp.zeros((), int), y, jax.tree.map(room, y))


def _chunks(
    flow: Any,
    grid: Grid,
    key: Array,
    carry: Carry,
    total: int,
    course: Course,
    many: bool,
    bar: Progress,
    keep: Callable[[Carry], None],
    due: Callable[[], bool],
) -> Carry:
    """Chunk after chunk, for the progress bar and checkpoints; the size of a chunk changes no bit of the result."""
    go, budget, done = advance_many if many else advance, 16, int(carry.step)
    begins, firsts = np.asarray(grid.begin), np.asarray(grid.first)
    try:
        while done < total:
            begun, before = time.monotonic(), done
            done = min(done + budget, total)
            new = go(flow, course.method, grid, key, carry, jnp.asarray(done))
            if not bool(finite(new.y)):
                place = np.searchsorted(firsts, before, "right") - 1
                raise SolverError(
                    f"tokens are no longer finite after t = {begins[place]:.6g}: they blow up, or dt = {course.dt:.3g} is too "
                    "large a step"
                )
            carry = new
            rate = (done - before) / max(time.monotonic() - begun, 1e-9)
            bar.update(float(begins[min(int(carry.interval), len(begins) - 1)]), rate)
            budget = int(min(max(rate * CHUNK_SECONDS, 4), 4 * budget))
            if due():
                keep(carry)
    finally:
        keep(carry)
    return carry


def checked_method(method: str | None) -> str:
    """The scheme's name, "heun" by default."""
    method = "heun" if method is None else method
    if method not in SCHEMES:
        raise ValueError(f"method must be one of {', '.join(SCHEMES)} for a model with noise, got {method!r}")
    return method


def checked_seed(seed: Any, model: Transformer, name: str = "seed") -> int:
    """The seed, which a random model must have."""
    if seed is None:
        raise ValueError(f"{name} must be given: {type(model.noise).__name__} makes this model random")
    seed = count(name, seed, 0)
    if seed >= 2**63:
        raise ValueError(f"{name} must be less than 2^63, got {seed}")
    return seed


def refuse(**options: Any) -> None:
    """Raise for the first option that was given although fixed random steps have no use for it."""
    for name, given in options.items():
        if given:
            raise ValueError(f"{name} makes no sense for a model with noise, which runs to t1 in fixed steps dt")


def default_dt(flow: AbstractNoisyFlow, state: Any, t1: float) -> float:
    """A twentieth of the time of the flow's fastest rate, at most a hundredth of the run."""
    return min(t1 / FEWEST_STEPS, 1 / (STEPS_PER_RATE * max(flow.rate(state), 1e-300)))


def simulate_noisy(
    model: Transformer,
    state: Any,
    t1: float,
    times: np.ndarray,
    dt: float | None,
    seed: int,
    method: str,
    max_steps: int,
    progress: bool | None,
    path: Path | None,
    every: float,
) -> Trajectory:
    """See `simulate`."""
    small, small_model, lift = prepare(state, model, SMALL)
    parts = segments(small, small_model)
    flow = parts[0].flow
    assert isinstance(flow, AbstractNoisyFlow)
    dt = default_dt(flow, small, t1) if dt is None else dt
    course = Course(t1, times, dt, method, max_steps, progress)
    y0 = flow.retract(flow.pack(small))
    numbers = t1, times, dt, max_steps, seed
    keeper = Keeper(path, lambda: checkpoint.fingerprint(parts, y0, numbers, method), every)
    saved, y, steps = follow(parts, y0, jax.random.key(seed), course, keeper=keeper)
    if times[-1] != t1:
        times = np.append(times, t1)
        saved = jax.tree.map(lambda buffer, leaf: np.concatenate([buffer, np.asarray(leaf)[None]]), saved, y)
    states = lift(jax.tree.map(np.asarray, _unpack_all(parts[-1].flow, saved)))
    attributes = record(model, float(flow.log_time_unit) + 0.0, course, steps) | {"seed": seed, "events": "[]"}
    attributes["config"] = json.dumps({**json.loads(attributes["config"]), "seed": seed})
    return Trajectory(to_dataset(states, times).assign_attrs(attributes))


def record(model: Transformer, log_time_unit: float, course: Course, steps: int) -> dict[str, Any]:
    """What a result says of how it was made, but for its seed."""
    config = {
        "model": describe(model),
        "t1": course.t1,
        "method": course.method,
        "dt": course.dt,
        "kappa": float(model.noise.kappa),  # type: ignore[union-attr]
        "max_steps": course.max_steps,
    }
    return {
        **provenance(),
        "config": json.dumps(config),
        "log_time_unit": log_time_unit,
        "steps": steps,
        "rejected_steps": 0,
        "dt": course.dt,
        "kappa": config["kappa"],
    }


@eqx.filter_jit
def _unpack_all(flow: Any, saved: Any) -> Any:
    return jax.vmap(flow.unpack)(saved)
