"""The time loop of the driver, compiled: advance one run, or all members of an ensemble, by a number of steps.

A record of an ensemble has a leading member axis, over which its functions are mapped; that of one run has none. In each
iteration every member takes its own step, and then saves at the save times that this step has passed.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._xla import ONE_THREAD, WIDE_VECTORS
from .._xla.compilation import compiled, compiled_once
from ..flows import AbstractFlow
from ..solver.base import HIT, RUNNING, AbstractMethod, Carry, Problem, choose
from ..solver.loop import attempt, locate, unknowns_at
from ..solver.loop import begin as begin_carry


class Record(eqx.Module):
    """A run, or an ensemble, at one time: everything that it needs to resume with the same bits.

    Args:
        carry: the carry of the method.
        saved: a buffer with the unknowns, or what is observed, at the save times; the first `count` are filled.
    """

    carry: Carry
    saved: Any
    count: Int[Array, "*members"]


def start_(
    problem: Problem, t: Array, y: Any, steps: Array, rejected: Array, saved: tuple[Any, Array] | None
) -> Record:
    """Return the record at the start of a stage. `saved` is a buffer to continue and its count, or None for a new buffer."""

    def one(problem: Problem, y: Any, steps: Array, rejected: Array):
        carry = begin_carry(problem, t, y, steps, rejected)
        dense = problem.method.no_step(carry.y)
        row, size = jax.eval_shape(lambda: _value(problem, carry, dense, t)), problem.settings.save_at.size
        empty = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), row)
        return carry, dense, (empty, jnp.zeros((), int))

    carry, dense, new = each(one, problem, y, steps, rejected)
    return _save(problem, Record(carry, *(new if saved is None else saved)), dense)


def advance_(problem: Problem, record: Record, budget: Array, width: int | None = None) -> Record:
    """Take at most `budget` trial steps with a run, or with each member of a batch.

    A step in which the stop rule holds is not taken here: the member becomes HIT, and `finish_` repeats its step.

    Args:
        width: the number of members that run at a time. When one of them has ended, another takes its place. None for all.
    """
    if width is None:
        return _steps(problem, record, budget, jnp.zeros_like(budget), 1)[0]

    def batch_of(state):
        record, steps = state
        idle = record.carry.status != RUNNING
        # The first that run. If they are too few, others, which do not move, fill the batch.
        batch = jnp.argsort(idle, stable=True)[:width]
        queue = (~idle).sum() > width
        own, part = _some(batch, problem, record)
        part, steps = _steps(own, part, budget, steps, jnp.where(queue, width, 1))
        return _put(record, batch, part), steps

    def going(state):
        record, steps = state
        return (record.carry.status == RUNNING).any() & (steps < budget)

    return jax.lax.while_loop(going, batch_of, (record, jnp.zeros_like(budget)))[0]


def _steps(problem: Problem, record: Record, budget: Array, steps: Array, least: Any) -> tuple[Record, Array]:
    """Step until the number of steps is `budget`, or fewer than `least` members run."""

    def one(problem: Problem, carry: Carry):
        new, dense = attempt(problem, carry)
        before = eqx.tree_at(lambda c: c.status, carry, jnp.full_like(carry.status, HIT))
        taken = new if problem.stop is None else choose(new.status == HIT, before, new)
        return choose(carry.status == RUNNING, taken, carry), dense

    def iteration(state):
        record, steps = state
        carry, dense = each(one, problem, record.carry)
        return _save(problem, Record(carry, record.saved, record.count), dense), steps + 1

    def going(state):
        record, steps = state
        return ((record.carry.status == RUNNING).sum() >= least) & (steps < budget)

    return jax.lax.while_loop(going, iteration, (record, steps))


def finish_(problem: Problem, record: Record, width: int | None = None) -> Record:
    """Take the last step of each member that is HIT, up to the time at which the stop rule holds, `width` at a time."""
    if width is None:
        return _last_step(problem, record)

    def batch_of(record):
        batch = jnp.argsort(record.carry.status != HIT, stable=True)[:width]
        own, part = _some(batch, problem, record)
        return _put(record, batch, choose(part.carry.status == HIT, _last_step(own, part), part))

    return jax.lax.while_loop(lambda record: (record.carry.status == HIT).any(), batch_of, record)


def _last_step(problem: Problem, record: Record) -> Record:
    """Take the last step of the run, or of every member, and cut it at the stop.

    This program rounds differently from `advance_`. If the rule does not hold here, or the step is rejected, the run continues.
    """

    def one(problem: Problem, carry: Carry):
        new, dense = attempt(problem, carry)
        return choose(new.status == HIT, locate(problem, new, dense, differentiated=False), new), dense

    carry, dense = each(one, problem, record.carry)
    return _save(problem, Record(carry, record.saved, record.count), dense)


def each(function: Callable, problem: Problem, *trees: Any) -> Any:
    """Return `function(problem, *trees)` for every member of an ensemble, or for the only run."""
    if not problem.ensemble:
        return function(problem, *trees)

    def one(flow: AbstractFlow, method: AbstractMethod, *trees: Any) -> Any:
        return function(dataclasses.replace(problem, flow=flow, method=method, ensemble=False), *trees)

    return eqx.filter_vmap(one)(problem.flow, problem.method, *trees)


def _save(problem: Problem, record: Record, dense: Any) -> Record:
    """Save at all save times that the last step has passed."""
    times, carry = problem.settings.save_at, record.carry
    if not times.size:
        return record
    passed = jnp.searchsorted(times, carry.t, side="right", method="compare_all").astype(record.count.dtype)
    until = jnp.maximum(record.count, passed)
    save = _save_pairs if problem.ensemble else _save_one
    return Record(carry, save(problem, record, dense, until), until)


def _save_one(problem: Problem, record: Record, dense: Any, until: Array) -> Any:
    """Return the buffer of one run, filled up to index `until`."""

    def save(state):
        saved, k = state
        value = _value(problem, record.carry, dense, problem.settings.save_at[k])
        put = lambda buffer, new: jax.lax.dynamic_update_index_in_dim(buffer, new, k, 0)  # noqa: E731
        return jax.tree.map(put, saved, value), k + 1

    return jax.lax.while_loop(lambda state: state[1] < until, save, (record.saved, record.count))[0]


def _save_pairs(problem: Problem, record: Record, dense: Any, until: Array) -> Any:
    """Return the buffer of an ensemble, filled up to the index `until` of each member.

    The pairs (member, save time) are computed in full blocks: a loop over the save times of each member would take as long as
    for the member with the most of them.
    """
    width, pairs = len(until), jnp.cumsum(until - record.count)

    def save(state):
        saved, begin = state
        pair = begin + jnp.arange(width)
        member = jnp.minimum(jnp.searchsorted(pairs, pair, side="right", method="compare_all"), width - 1)
        k = until[member] - (pairs[member] - pair)
        own, part = _some(member, problem, (record.carry, dense))
        value = each(_value, own, *part, problem.settings.save_at.at[k].get(mode="clip"))
        place = jnp.where(pair < pairs[-1], member, width), k
        return jax.tree.map(lambda buffer, new: buffer.at[place].set(new, mode="drop"), saved, value), begin + width

    return jax.lax.while_loop(lambda state: state[1] < pairs[-1], save, (record.saved, jnp.zeros_like(pairs[-1])))[0]


def _value(problem: Problem, carry: Carry, dense: Any, time: Array) -> Any:
    """Return what is saved at a time in the last step."""
    y = unknowns_at(problem, carry, dense, time)
    return y if problem.observe is None else problem.observe(problem.flow.unpack(y))


def _some(batch: Array, problem: Problem, tree: Any) -> tuple[Problem, Any]:
    """Return the problem of some members of an ensemble, and their part of a tree."""
    pick = lambda leaf: leaf[batch] if eqx.is_array(leaf) else leaf  # noqa: E731
    flow, method = jax.tree.map(pick, (problem.flow, problem.method))
    return dataclasses.replace(problem, flow=flow, method=method), jax.tree.map(pick, tree)


def _put(record: Record, batch: Array, part: Record) -> Record:
    """Return the ensemble with these members replaced."""
    return jax.tree.map(lambda all_, some: all_.at[batch].set(some), record, part)


class Programs(NamedTuple):
    """The compiled programs of a run or an ensemble."""

    start: Any
    advance: Any
    finish: Any


def _programs(once: Callable, options: dict[str, Any]) -> Programs:
    """Compile the three functions: `once` compiles the two that are called once in a stage."""
    return Programs(once(start_), compiled(advance_, WIDE_VECTORS | options), once(finish_))


PROGRAMS = _programs(eqx.filter_jit, {})
SMALL_PROGRAMS = PROGRAMS._replace(start=compiled_once(start_), finish=compiled_once(finish_))
# Their bits do not depend on the number of threads.
ONE_THREAD_PROGRAMS = _programs(lambda function: compiled(function, ONE_THREAD), ONE_THREAD)
