"""Runs: smooth segments one after another, in chunks, with progress and checkpoints."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..flows import Segment
from . import checkpoint, loop
from .progress import Progress
from .steppers import Stepper
from .stop import AbstractStopRule, OnFlow

CHUNK_SECONDS = 0.3
PADDED_NUMBERS = 1 << 20  # a buffer of more numbers is not padded


class SolverError(RuntimeError):
    """The integration could not go on."""


class Outcome(NamedTuple):
    """Saved times, a buffer whose first rows are the unknowns then, how the run ended, and what it took."""

    times: np.ndarray
    saved: Any
    flow: Any
    t: float
    y: Any
    status: int
    steps: int
    rejected: int


class Plan(NamedTuple):
    """Everything that defines a run."""

    segments: tuple[Segment, ...]
    y0: Any
    t1: float
    save_at: np.ndarray
    rtol: float
    atol: float
    dt: float | None
    stepper: Stepper
    stop: AbstractStopRule | None
    max_steps: int

    @property
    def identity(self) -> str:
        arrays = (self.t1, self.save_at, self.rtol, self.atol, self.dt, self.max_steps)
        return checkpoint.fingerprint(self.segments, self.y0, arrays, self.stepper, self.stop)


@eqx.filter_jit
def packed(flow: Any, state: Any) -> Any:
    """The unknowns that stand for a state, in one program rather than in many small ones."""
    return flow.pack(state)


@eqx.filter_jit
def begin(
    flow: Any, stepper: Stepper, settings: loop.Settings, stop: OnFlow | None, y: Any, with_first: bool
) -> loop.Carry:
    """The carry at time 0, with room for the unknowns at the save times, the first of them filled if asked for; it is at its
    end if `stop` holds already."""
    saved = jax.tree.map(lambda leaf: jnp.zeros((settings.save_at.size, *leaf.shape), leaf.dtype), y)
    if with_first:
        saved = jax.tree.map(lambda buffer, leaf: buffer.at[0].set(leaf), saved, flow.retract(y))
    count = jnp.asarray(int(with_first), int)
    carry = loop.start_(flow, stepper, settings, jnp.zeros(()), y, saved, count)
    if stop is None:
        return carry
    status = jnp.where(stop(carry.t, carry.y, flow), loop.STOPPED, carry.status).astype(int)
    return eqx.tree_at(lambda c: c.status, carry, status)


def padded(save_at: np.ndarray, y: Any) -> np.ndarray:
    """Save times, followed by infinite ones up to one of a few numbers of times: their number is part of a program, and runs
    that differ in it alone share one. Large buffers get no more room than they need."""
    room = 1 << max(len(save_at) - 1, 7).bit_length()
    numbers = sum(leaf.size for leaf in jax.tree.leaves(y))
    if not len(save_at) or room * numbers > PADDED_NUMBERS:
        return save_at
    return np.pad(save_at, (0, room - len(save_at)), constant_values=np.inf)


def run(plan: Plan, progress: bool | None, path: Path | None, every: float) -> Outcome:
    """Integrate; resume from the checkpoint at `path` if there is one, and write one every `every` seconds."""
    identity = plan.identity if path is not None else ""
    resumed = checkpoint.read(path, identity) if path is not None and path.exists() else None
    first = resumed[0] if resumed else 0
    stop = None if plan.stop is None else OnFlow(plan.stop)
    ends = [min(segment.until, plan.t1) for segment in plan.segments]
    count = next(k for k, end in enumerate(ends) if end >= plan.t1) + 1

    t, y = 0.0, plan.y0
    first_saved = len(plan.save_at) > 0 and plan.save_at[0] == 0
    save_at = padded(plan.save_at, y)
    saved, saved_count, steps, rejected = None, None, 0, 0

    with Progress(progress, "simulating", plan.t1) as bar:
        for k in range(first, count):
            flow, end = plan.segments[k].flow, ends[k]
            t_last = np.nextafter(end, -np.inf) if k + 1 < len(ends) and end == plan.segments[k].until else end
            number = lambda value: jnp.asarray(value, float)  # noqa: E731
            settings = loop.Settings(
                t1=number(end),
                t_last=number(t_last),
                save_at=number(save_at),
                rtol=number(plan.rtol),
                atol=number(plan.atol),
                dt=None if plan.dt is None else number(plan.dt),
            )
            if k == first:  # a run that is resumed takes the shapes from here, and all numbers from its file
                carry = begin(flow, plan.stepper, settings, stop, y, bool(first_saved))
            else:
                carry = loop.start(flow, plan.stepper, settings, jnp.asarray(t, float), y, saved, saved_count)
            carry = eqx.tree_at(lambda c: (c.steps, c.rejected), carry, (jnp.asarray(steps), jnp.asarray(rejected)))
            if resumed and k == first:
                carry = checkpoint.restore(carry, resumed[1])
            elif k > first and stop is not None and bool(eqx.filter_jit(stop)(carry.t, carry.y, flow)):
                carry = eqx.tree_at(lambda c: c.status, carry, jnp.asarray(loop.STOPPED))
            store = None if path is None else lambda c, k=k: checkpoint.write(path, identity, k, c)
            carry = _chunks(flow, plan, settings, stop, carry, bar, store, every)
            t, y, saved, saved_count = float(carry.t), carry.y, carry.saved, carry.saved_count
            steps, rejected = int(carry.steps), int(carry.rejected)
            if int(carry.status) != loop.FINISHED:
                break
    return Outcome(plan.save_at[: int(carry.saved_count)], saved, flow, t, y, int(carry.status), steps, rejected)


def _chunks(
    flow: Any,
    plan: Plan,
    settings: loop.Settings,
    stop: OnFlow | None,
    carry: loop.Carry,
    bar: Progress,
    store: Callable[[loop.Carry], None] | None,
    every: float,
) -> loop.Carry:
    """Chunk after chunk until the segment ends; the size of a chunk changes no bit of the result."""
    budget, written = 16, time.monotonic()
    try:
        while int(carry.status) == loop.RUNNING:
            done = int(carry.steps) + int(carry.rejected)
            if done >= plan.max_steps:
                raise SolverError(
                    f"max_steps = {plan.max_steps} steps were not enough: stopped at t = {float(carry.t):.6g} of "
                    f"{plan.t1:.6g}; allow more steps or loosen the tolerances"
                )
            begun = time.monotonic()
            carry = loop.advance(
                flow, plan.stepper, settings, stop, carry, jnp.asarray(min(budget, plan.max_steps - done))
            )
            jax.block_until_ready(carry.t)
            spent = max(time.monotonic() - begun, 1e-9)
            rate = (int(carry.steps) + int(carry.rejected) - done) / spent
            bar.update(float(carry.t), rate)
            budget = int(min(max(rate * CHUNK_SECONDS, 4), 4 * budget))
            if store is not None and time.monotonic() - written > every:
                store(carry)
                written = time.monotonic()
    finally:
        if store is not None:
            store(carry)
    return carry
