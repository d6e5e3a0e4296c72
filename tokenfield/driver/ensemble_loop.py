"""The time loop of an ensemble: at most `width` members at a time, in one program. When one ends, the next takes its slot.

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
from ..solver.loop import attempt, begin, locate


class Member(eqx.Module):
    """The carry of a member, and the number of save times that it has passed."""

    carry: Carry
    count: Int[Array, "*members"]


class Slots(eqx.Module):
    """An ensemble of m members, of which w are running.

    Args:
        rows: all members; those that run are up to date only in `current`.
        saved: the saved values of all members.
        queue: (m,) the members to run, in order, padded with -1; the first `started` of them have had a slot.
        member: (w,) the member in each slot.
        current: (w,) the members in the slots.
        total_steps: total number of trial steps of all members.
    """

    rows: Member
    saved: Any
    queue: Int[Array, " m"]
    started: Int[Array, ""]
    member: Int[Array, " w"]
    current: Member
    total_steps: Int[Array, ""]

    @property
    def carry(self) -> Carry:
        """The carry of all members, at the end of a stage."""
        return self.rows.carry


def start_(problem: Problem, t: Array, y: Any, steps: Array, rejected: Array, count: Array) -> Member:
    """Return all members at the start of a stage. All arguments but t have a member axis."""

    def one(parts, y, steps, rejected, count):
        return Member(begin(_of(problem, parts), t, y, steps, rejected), count)

    return eqx.filter_vmap(one)((problem.flow, problem.method), y, steps, rejected, count)


def fill_slots_(rows: Member, saved: Any, queue: Array, started: Array, member: Array) -> Slots:
    """Put the members `member` into the slots."""
    return Slots(rows, saved, queue, started, member, _at(rows, member), jnp.zeros((), int))


def _of(problem: Problem, parts: tuple[AbstractFlow, AbstractMethod]) -> Problem:
    """Return the problem of one member."""
    return Problem(*parts, problem.settings, problem.stop, problem.observe)


@eqx.filter_jit
def all_rows(slots: Slots) -> Member:
    """Return all members, with those in the slots up to date."""
    return jax.tree.map(lambda all_, some: all_.at[slots.member].set(some), slots.rows, slots.current)


def advance_(problem: Problem, slots: Slots, budget: Array) -> Slots:
    """Run for at most `budget` iterations; in each, every slot takes one trial step."""

    def step(parts, carry):
        new, dense = attempt(_of(problem, parts), carry)
        # A step in which the stop rule holds is not taken here: `finish_` repeats it and locates the stop.
        waiting = eqx.tree_at(lambda c: c.status, carry, jnp.full_like(carry.status, HIT))
        return (new if problem.stop is None else choose(new.status == HIT, waiting, new)), dense

    own, rest = eqx.partition((problem.flow, problem.method), eqx.is_array)
    numbers = _at(own, slots.member)

    def iteration(state):
        rows, saved, started, member, numbers, current, total_steps, iterations = state
        running = current.carry.status == RUNNING
        parts = eqx.combine(numbers, rest)
        new, dense = eqx.filter_vmap(step)(parts, current.carry)
        new = Member(choose_each(running, new, current.carry), current.count)
        saved, new = _save(problem, parts, member, new, dense, saved)
        ended = running & (new.carry.status != RUNNING)
        _, rows, started, member, numbers, current = jax.lax.while_loop(
            lambda state: state[0].any(), refill_slot, (ended, rows, started, member, numbers, new)
        )
        return rows, saved, started, member, numbers, current, total_steps + running.sum(), iterations + 1

    def refill_slot(state):
        """Give the slot of the first member that has ended to the next one in the queue, if there is one."""
        ended, rows, started, member, numbers, current = state
        slot = jnp.argmax(ended)
        rows = _put(rows, member[slot], _row(current, slot))
        next_ = slots.queue.at[started].get(mode="fill", fill_value=-1)
        has_next = next_ >= 0
        new = jnp.where(has_next, next_, member[slot])
        numbers, current = _put(numbers, slot, _row(own, new)), _put(current, slot, _row(rows, new))
        return ended.at[slot].set(False), rows, started + has_next, member.at[slot].set(new), numbers, current

    def keep_going(state):
        return (state[5].carry.status == RUNNING).any() & (state[-1] < budget)

    start = slots.rows, slots.saved, slots.started, slots.member, numbers, slots.current, slots.total_steps
    rows, saved, started, member, _, current, total_steps, _ = jax.lax.while_loop(
        keep_going, iteration, (*start, jnp.zeros((), int))
    )
    return Slots(rows, saved, slots.queue, started, member, current, total_steps)


def finish_(problem: Problem, rows: Member, saved: Any, queue: Array, width: int) -> tuple[Member, Any]:
    """Take the last step of each member that the rule stops, `width` at a time. Indices past the last member are padding."""

    def end(parts, carry):
        own = _of(problem, parts)
        new, dense = attempt(own, carry)
        return locate(own, new, dense, differentiated=False), dense

    blocks = -(-len(queue) // width)
    queue = jnp.pad(queue, (0, blocks * width - len(queue)), constant_values=len(queue))
    count = len(rows.count)

    def block(state):
        rows, saved, begin = state
        member = jax.lax.dynamic_slice_in_dim(queue, begin, width)
        clipped = jnp.minimum(member, count - 1)
        parts, old = _at((problem.flow, problem.method), clipped), _at(rows, clipped)
        carry, dense = eqx.filter_vmap(end)(parts, old.carry)
        saved, new = _save(problem, parts, member, Member(carry, old.count), dense, saved)
        rows = jax.tree.map(lambda all_, some: all_.at[member].set(some, mode="drop"), rows, new)
        return rows, saved, begin + width

    last = jnp.sum(queue < count)
    rows, saved, _ = jax.lax.while_loop(lambda state: state[-1] < last, block, (rows, saved, jnp.zeros((), int)))
    return rows, saved


def _save(problem: Problem, parts: Any, member: Array, new: Member, dense: Any, saved: Any) -> tuple[Any, Member]:
    """Save the values at all save times passed: pairs (member, time), in blocks of as many pairs as there are slots."""
    times = problem.settings.save_at
    if not times.size:
        return saved, new
    first, until = new.count, jnp.searchsorted(times, new.carry.t, side="right", method="compare_all")
    until = jnp.maximum(first, until.astype(first.dtype))
    pairs = jnp.cumsum(until - first)
    width = len(member)

    @eqx.filter_vmap
    def value(parts, t, y, dense, time):
        flow, method = parts
        between = method.at(flow, dense, time)
        if problem.observe is None:
            return choose(time == t, y, between)
        return problem.observe(flow.unpack(between))

    def block(state):
        saved, begin = state
        pair = begin + jnp.arange(width)
        slot = jnp.minimum(jnp.searchsorted(pairs, pair, side="right", method="compare_all"), width - 1)
        k = until[slot] - (pairs[slot] - pair)
        given = parts, new.carry.t, new.carry.y, dense
        found = value(*(_at(tree, slot) for tree in given), times.at[k].get(mode="clip"))
        where = jnp.where(pair < pairs[-1], member[slot], len(jax.tree.leaves(saved)[0]))
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


fill_slots = eqx.filter_jit(fill_slots_)
PROGRAMS = _compiled({})
ONE_THREAD_PROGRAMS = _compiled(ONE_THREAD)  # their bits do not depend on the number of threads
