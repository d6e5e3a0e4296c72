"""The time loop of one run: advance it by chunks of steps, and save the unknowns at the save times."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from diffrax import ForwardMode
from jaxtyping import Array, Int

from .._xla import WIDE_VECTORS
from .._xla.arrays import from_numpy
from .._xla.compilation import compiled, compiled_once
from ..solver.base import RUNNING, Carry, Problem, Settings
from ..solver.loop import advance, unknowns_at
from ..solver.loop import begin as begin_carry
from .run import AbstractLoop, Reached

CHUNK_SECONDS = 0.3
SMALL = 1024  # numbers in a state for which compiling takes longer than running


class Record(eqx.Module):
    """A run at one time: everything that it needs to resume with the same bits.

    Args:
        carry: the carry of the method.
        dense: the interpolant of the last step.
        saved: a buffer with the unknowns at the save times; the first `count` are filled.
    """

    carry: Carry
    dense: Any
    saved: Any
    count: Int[Array, ""]


def begin_(
    problem: Problem, t: Array, y: Any, steps: Array, rejected: Array, saved: tuple[Any, Array] | None
) -> Record:
    """Return the record at the start of a stage. `saved` is a buffer to continue and its count, or None for a new buffer."""
    carry = begin_carry(problem, t, y, steps, rejected)
    if saved is None:
        zeros = lambda leaf: jnp.zeros((problem.settings.save_at.size, *leaf.shape), leaf.dtype)  # noqa: E731
        saved = jax.tree.map(zeros, carry.y), jnp.zeros((), int)
    buffer, count = saved
    return _saved(problem, Record(carry, problem.method.no_step(carry.y), buffer, count))


def advance_(problem: Problem, record: Record, budget: Array) -> Record:
    """Take at most `budget` trial steps, and save the unknowns at the save times. The budget does not affect the results."""
    settings = problem.settings
    last = record.carry.steps + record.carry.rejected + budget

    def keep_going(r: Record):
        c = r.carry
        return ((c.status == RUNNING) & (c.steps + c.rejected < last)) | _due(settings, r)

    def to_next_save(r: Record):
        target = _save_time(settings, r.count)
        # ForwardMode is a lax.while_loop, which ignores max_steps.
        carry, dense = advance(problem, r.carry, r.dense, target, last, 1, ForwardMode(), differentiated=False)
        return _saved(problem, Record(carry, dense, r.saved, r.count))

    return jax.lax.while_loop(keep_going, to_next_save, record)


def _save_time(settings: Settings, k: Array) -> Array:
    if not settings.save_at.size:
        return jnp.array(jnp.inf)
    return settings.save_at.at[k].get(mode="fill", fill_value=jnp.inf)


def _due(settings: Settings, record: Record) -> Array:
    """Return True if the run has reached the next save time."""
    time = _save_time(settings, record.count)
    return (time <= record.carry.t) & (time < jnp.inf)


def _saved(problem: Problem, record: Record) -> Record:
    """Return the record, with the unknowns at the next save time if the run has reached it."""
    if not problem.settings.save_at.size:
        return record
    return jax.lax.cond(_due(problem.settings, record), lambda r: _write(problem, r), lambda r: r, record)


def _write(problem: Problem, r: Record) -> Record:
    time = _save_time(problem.settings, r.count)
    y = unknowns_at(problem, r.carry, r.dense, time)
    saved = jax.tree.map(lambda buffer, leaf: buffer.at[r.count].set(leaf), r.saved, y)
    return Record(r.carry, r.dense, saved, r.count + 1)


begin_small, begin_large = compiled_once(begin_), eqx.filter_jit(begin_)
advance_chunk = compiled(advance_, WIDE_VECTORS)


def begin(problem: Problem, t: Any, y: Any, steps: Array, rejected: Array, saved: tuple[Any, Array] | None) -> Record:
    """Return `begin_`, compiled for a state of this size."""
    small = sum(leaf.size for leaf in jax.tree.leaves(y)) <= SMALL
    return (begin_small if small else begin_large)(problem, t, y, steps, rejected, saved)


@functools.lru_cache(maxsize=64)
def _number(budget: int) -> Array:
    return from_numpy(np.asarray(budget))


class Single(AbstractLoop):
    """One run."""

    def begin(self, stage, before):
        zero = from_numpy(np.zeros((), int))
        steps, rejected = (zero, zero) if before is None else (before.carry.steps, before.carry.rejected)
        saved = (before.saved, before.count) if stage.continues and before is not None else None
        return begin(stage.problem, from_numpy(np.asarray(stage.t, float)), stage.y, steps, rejected, saved)

    def advance(self, problem, record, budget):
        return advance_chunk(problem, record, _number(budget))

    def reached(self, record):
        c = record.carry
        steps = int(c.steps) + int(c.rejected)
        return Reached(int(c.status) == RUNNING, steps, steps, float(c.t))

    def budget(self, before, rate):
        """Aim at chunks of `CHUNK_SECONDS`, starting with a single step."""
        return 1 if before is None else max(1, int(min(rate * CHUNK_SECONDS, 4 * before)))
