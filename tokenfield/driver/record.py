"""A run in chunks: what has been saved so far, and "advance by at most this many steps"."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from diffrax import ForwardMode
from jaxtyping import Array, Int

from .._xla import WIDE_VECTORS
from ..flows import AbstractFlow
from ..solver.base import RUNNING, STOPPED, AbstractMethod, Carry, Settings, choose
from ..solver.loop import advance, empty_dense
from ..solver.stop import OnFlow


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


class Problem(eqx.Module):
    """Data that stay constant during a smooth segment."""

    flow: AbstractFlow
    method: AbstractMethod
    settings: Settings
    stop: OnFlow | None


def begin_(problem: Problem, t: Array, y: Any, before: Record | None) -> Record:
    """Return the record at the start of a segment; `before` is the record at the end of the previous one, or None.

    The run has ended if the stop rule already holds.
    """
    flow, method, settings, stop = problem.flow, problem.method, problem.settings, problem.stop
    carry = method.init(flow, settings, t, y)
    if before is not None:
        counts = before.carry.steps, before.carry.rejected
        carry = eqx.tree_at(lambda c: (c.steps, c.rejected), carry, counts)
        saved, count = before.saved, before.count
    else:
        room = lambda leaf: jnp.zeros((settings.save_at.size, *leaf.shape), leaf.dtype)  # noqa: E731
        saved, count = jax.tree.map(room, carry.y), jnp.zeros((), int)
    if stop is not None:
        status = jnp.where(stop(carry.t, carry.y, flow), STOPPED, carry.status).astype(int)
        carry = eqx.tree_at(lambda c: c.status, carry, status)
    record = Record(carry, empty_dense(flow, method, settings, carry), saved, count)
    return _saved(problem, record)


def advance_(problem: Problem, record: Record, budget: Array) -> Record:
    """Take at most `budget` trial steps, and save the unknowns at the save times. The budget does not affect the results."""
    flow, method, settings, stop = problem.flow, problem.method, problem.settings, problem.stop
    last = record.carry.steps + record.carry.rejected + budget

    def going(r: Record):
        c = r.carry
        return ((c.status == RUNNING) & (c.steps + c.rejected < last)) | _due(settings, r)

    def to_next_save(r: Record):
        target = _save_time(settings, r.count)
        plain = {
            "max_steps": 1,
            "adjoint": ForwardMode(),
            "differentiated": False,
        }  # a lax.while_loop: max_steps is ignored
        carry, dense = advance(flow, method, settings, stop, r.carry, r.dense, target, last, **plain)  # type: ignore[arg-type]
        return _saved(problem, Record(carry, dense, r.saved, r.count))

    return jax.lax.while_loop(going, to_next_save, record)


def _save_time(settings: Settings, k: Array) -> Array:
    if not settings.save_at.size:
        return jnp.array(jnp.inf)
    return settings.save_at.at[k].get(mode="fill", fill_value=jnp.inf)


def _due(settings: Settings, record: Record) -> Array:
    """Return True if the run has reached the next save time."""
    time = _save_time(settings, record.count)
    return (time <= record.carry.t) & (time < jnp.inf)


def _saved(problem: Problem, record: Record) -> Record:
    """Return the record; if the run has reached the next save time, with the unknowns there saved."""
    if not problem.settings.save_at.size:
        return record
    return jax.lax.cond(_due(problem.settings, record), lambda r: _write(problem, r), lambda r: r, record)


def _write(problem: Problem, r: Record) -> Record:
    time = _save_time(problem.settings, r.count)
    y = choose(time == r.carry.t, r.carry.y, problem.method.at(problem.flow, r.dense, time))
    saved = jax.tree.map(lambda buffer, leaf: buffer.at[r.count].set(leaf), r.saved, y)
    return Record(r.carry, r.dense, saved, r.count + 1)


begin = eqx.filter_jit(begin_)
go_on = eqx.filter_jit(advance_, compiler_options=WIDE_VECTORS)  # type: ignore[call-overload]
