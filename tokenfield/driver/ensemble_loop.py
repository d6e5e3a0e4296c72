"""The time loop of an ensemble: a batch of at most `width` members, in one program. When one ends, the next takes its place.

Each member takes its own steps. In each iteration, the values that all members save are computed together in full blocks: a
loop over the save times of each member would take as long as for the member with the most save times.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .._xla import ONE_THREAD, WIDE_VECTORS
from .._xla.compilation import compiled
from ..flows import AbstractFlow
from ..solver.base import HIT, RUNNING, AbstractMethod, Carry, Problem, choose
from ..solver.loop import attempt, begin, locate, unknowns_at


class Member(eqx.Module):
    """The carry of a member, and the number of save times that it has passed."""

    carry: Carry
    count: Int[Array, "*members"]


class EnsembleRecord(eqx.Module):
    """An ensemble of m members at one time, of which w are in the batch: everything that it needs to resume with the same bits.

    Args:
        members: all members; those in the batch are up to date only in `current`.
        saved: the saved values of all members.
        queue: (m,) the members to run, in order, padded with -1; the first `started` of them have been in the batch.
        batch: (w,) the indices of the members in the batch.
        current: (w,) the members in the batch.
        total_steps: total number of trial steps of all members.
    """

    members: Member
    saved: Any
    queue: Int[Array, " m"]
    started: Int[Array, ""]
    batch: Int[Array, " w"]
    current: Member
    total_steps: Int[Array, ""]

    @property
    def carry(self) -> Carry:
        """The carry of all members, at the end of a stage."""
        return self.members.carry


def start_(problem: Problem, t: Array, y: Any, steps: Array, rejected: Array, count: Array) -> Member:
    """Return all members at the start of a stage. All arguments but t have a member axis."""

    def one(parts, y, steps, rejected, count):
        return Member(begin(_of(problem, parts), t, y, steps, rejected), count)

    return eqx.filter_vmap(one)((problem.flow, problem.method), y, steps, rejected, count)


def form_batch_(members: Member, saved: Any, queue: Array, started: Array, batch: Array) -> EnsembleRecord:
    """Put the members with indices `batch` into the batch."""
    return EnsembleRecord(members, saved, queue, started, batch, _at(members, batch), jnp.zeros((), int))


def _of(problem: Problem, parts: tuple[AbstractFlow, AbstractMethod]) -> Problem:
    """Return the problem of one member."""
    return Problem(*parts, problem.settings, problem.stop, problem.observe)


@eqx.filter_jit
def all_members(record: EnsembleRecord) -> Member:
    """Return all members, with those in the batch up to date."""
    return jax.tree.map(lambda all_, some: all_.at[record.batch].set(some), record.members, record.current)


def advance_(problem: Problem, record: EnsembleRecord, budget: Array) -> EnsembleRecord:
    """Run for at most `budget` iterations; in each, every member of the batch takes one trial step."""

    def step(parts, carry):
        new, dense = attempt(_of(problem, parts), carry)
        # A step in which the stop rule holds is not taken here: `finish_` repeats it and locates the stop.
        before = eqx.tree_at(lambda c: c.status, carry, jnp.full_like(carry.status, HIT))
        return (new if problem.stop is None else choose(new.status == HIT, before, new)), dense

    own, rest = eqx.partition((problem.flow, problem.method), eqx.is_array)
    numbers = _at(own, record.batch)

    def iteration(state):
        members, saved, started, batch, numbers, current, total_steps, iterations = state
        running = current.carry.status == RUNNING
        parts = eqx.combine(numbers, rest)
        new, dense = eqx.filter_vmap(step)(parts, current.carry)
        new = Member(choose_each(running, new, current.carry), current.count)
        saved, new = _save(problem, parts, batch, new, dense, saved)
        ended = running & (new.carry.status != RUNNING)
        _, members, started, batch, numbers, current = jax.lax.while_loop(
            lambda state: state[0].any(), replace_one, (ended, members, started, batch, numbers, new)
        )
        return members, saved, started, batch, numbers, current, total_steps + running.sum(), iterations + 1

    def replace_one(state):
        """Replace the first member of the batch that has ended by the next one in the queue, if there is one."""
        ended, members, started, batch, numbers, current = state
        place = jnp.argmax(ended)
        members = _put(members, batch[place], _row(current, place))
        next_ = record.queue.at[started].get(mode="fill", fill_value=-1)
        has_next = next_ >= 0
        new = jnp.where(has_next, next_, batch[place])
        numbers, current = _put(numbers, place, _row(own, new)), _put(current, place, _row(members, new))
        return ended.at[place].set(False), members, started + has_next, batch.at[place].set(new), numbers, current

    def keep_going(state):
        return (state[5].carry.status == RUNNING).any() & (state[-1] < budget)

    start = record.members, record.saved, record.started, record.batch, numbers, record.current, record.total_steps
    members, saved, started, batch, _, current, total_steps, _ = jax.lax.while_loop(
        keep_going, iteration, (*start, jnp.zeros((), int))
    )
    return EnsembleRecord(members, saved, record.queue, started, batch, current, total_steps)


def finish_(problem: Problem, members: Member, saved: Any, queue: Array, width: int) -> tuple[Member, Any]:
    """Take the last step of each member that the rule stops, `width` at a time. Indices past the last member are padding."""

    def end(parts, carry):
        own = _of(problem, parts)
        new, dense = attempt(own, carry)
        return locate(own, new, dense, differentiated=False), dense

    blocks = -(-len(queue) // width)
    queue = jnp.pad(queue, (0, blocks * width - len(queue)), constant_values=len(queue))
    count = len(members.count)

    def block(state):
        members, saved, begin = state
        batch = jax.lax.dynamic_slice_in_dim(queue, begin, width)
        clipped = jnp.minimum(batch, count - 1)
        parts, old = _at((problem.flow, problem.method), clipped), _at(members, clipped)
        carry, dense = eqx.filter_vmap(end)(parts, old.carry)
        saved, new = _save(problem, parts, batch, Member(carry, old.count), dense, saved)
        members = jax.tree.map(lambda all_, some: all_.at[batch].set(some, mode="drop"), members, new)
        return members, saved, begin + width

    last = jnp.sum(queue < count)
    members, saved, _ = jax.lax.while_loop(lambda state: state[-1] < last, block, (members, saved, jnp.zeros((), int)))
    return members, saved


def _save(problem: Problem, parts: Any, batch: Array, new: Member, dense: Any, saved: Any) -> tuple[Any, Member]:
    """Save the values at all save times passed: pairs (member, time), in blocks of as many pairs as the batch has members."""
    times = problem.settings.save_at
    if not times.size:
        return saved, new
    first, until = new.count, jnp.searchsorted(times, new.carry.t, side="right", method="compare_all")
    until = jnp.maximum(first, until.astype(first.dtype))
    pairs = jnp.cumsum(until - first)
    width = len(batch)

    @eqx.filter_vmap
    def value(parts, carry, dense, time):
        own = _of(problem, parts)
        y = unknowns_at(own, carry, dense, time)
        return y if own.observe is None else own.observe(own.flow.unpack(y))

    def block(state):
        saved, begin = state
        pair = begin + jnp.arange(width)
        place = jnp.minimum(jnp.searchsorted(pairs, pair, side="right", method="compare_all"), width - 1)
        k = until[place] - (pairs[place] - pair)
        given = parts, new.carry, dense
        found = value(*(_at(tree, place) for tree in given), times.at[k].get(mode="clip"))
        where = jnp.where(pair < pairs[-1], batch[place], len(jax.tree.leaves(saved)[0]))
        saved = jax.tree.map(lambda all_, some: all_.at[where, k].set(some, mode="drop"), saved, found)
        return saved, begin + width

    saved, _ = jax.lax.while_loop(lambda state: state[1] < pairs[-1], block, (saved, jnp.zeros((), int)))
    return saved, Member(new.carry, until)


def _at(tree: Any, index: Array) -> Any:
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)


def _row(tree: Any, k: Array) -> Any:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, k, keepdims=False), tree)


def _put(tree: Any, k: Array, row: Any) -> Any:
    return jax.tree.map(lambda leaf, one: jax.lax.dynamic_update_index_in_dim(leaf, one, k, 0), tree, row)


def choose_each(condition: Array, yes: Any, no: Any) -> Any:
    """Apply `jnp.where` to trees, member by member."""
    pick = lambda a, b: jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)  # noqa: E731
    return jax.tree.map(pick, yes, no)


class Programs(NamedTuple):
    """The compiled programs of an ensemble."""

    start: Any
    advance: Any
    finish: Any


def _compiled(options: dict[str, Any]) -> Programs:
    return Programs(
        compiled(start_, options), *(compiled(each, WIDE_VECTORS | options) for each in (advance_, finish_))
    )


form_batch = eqx.filter_jit(form_batch_)
PROGRAMS = _compiled({})
ONE_THREAD_PROGRAMS = _compiled(ONE_THREAD)  # their bits do not depend on the number of threads
