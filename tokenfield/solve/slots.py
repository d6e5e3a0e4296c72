"""The time loop of many members: a few slots, in which one that has ended makes room for the next, all in one program.

Members take steps of their own. What is saved of all of them in one turn is worked out in full blocks, for a loop over the
times of each member would wait for the one with most of them.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ..flows import AbstractFlow
from . import loop
from .steppers import Stepper

# `alone` programs use one thread and are compiled in one piece, so that bits do not depend on the number of threads.
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_parallel_codegen_split_count": 1}


class Slots(eqx.Module):
    """m members, w of which run.

    Args:
        rows: the carries of all members, without what they save; those that run are only up to date in `carry`.
        saved: what all members have saved.
        queue: (m,) which members have to run, in order, then -1; the first `seated` of them have got a slot.
        member: (w,) who is in each slot; `flow` and `carry` are theirs.
        taken: trial steps taken by all.
    """

    rows: loop.Carry
    saved: Any
    queue: Int[Array, " m"]
    seated: Int[Array, ""]
    member: Int[Array, " w"]
    flow: AbstractFlow
    carry: loop.Carry
    taken: Int[Array, ""]


class Problem(eqx.Module):
    """What stays the same: the flows of all members, the method, the rule that ends a run, and what is kept of a state."""

    flow: AbstractFlow
    stepper: Stepper
    settings: loop.Settings
    stop: Any
    observe: Any


def seat_(problem: Problem, rows: loop.Carry, saved: Any, queue: Array, seated: Array, member: Array) -> Slots:
    """Members take their slots."""
    flow, carry = (_at(tree, member) for tree in (problem.flow, rows))
    return Slots(rows, saved, queue, seated, member, flow, carry, jnp.zeros((), int))


@eqx.filter_jit
def stand(slots: Slots) -> loop.Carry:
    """The carries of all members, with those in the slots."""
    return jax.tree.map(lambda all_, some: all_.at[slots.member].set(some), slots.rows, slots.carry)


def advance_(problem: Problem, slots: Slots, budget: Array) -> Slots:
    """Go on for at most `budget` turns, in each of which every slot takes a trial step."""
    step = eqx.filter_vmap(lambda flow, carry: loop.trial(flow, problem.stepper, problem.settings, problem.stop, carry))
    numbers, rest = eqx.partition(slots.flow, eqx.is_array)
    own = eqx.partition(problem.flow, eqx.is_array)[0]

    def turn(state):
        rows, saved, seated, member, numbers, carry, taken, turns = state
        running = carry.status == loop.RUNNING
        flow = eqx.combine(numbers, rest)
        new, dense = step(flow, carry)
        new = choose_each(running, new, carry)
        saved, new = _save(problem, flow, member, carry, new, dense, saved)
        ended = running & (new.status != loop.RUNNING)
        _, rows, seated, member, numbers, carry = jax.lax.while_loop(
            lambda state: state[0].any(), make_room, (ended, rows, seated, member, numbers, new)
        )
        return rows, saved, seated, member, numbers, carry, taken + running.sum(), turns + 1

    def make_room(state):
        """The first member that has ended leaves its slot to the next that waits, if there is one."""
        ended, rows, seated, member, numbers, carry = state
        slot = jnp.argmax(ended)
        rows = _put(rows, member[slot], _row(carry, slot))
        next_ = slots.queue.at[seated].get(mode="fill", fill_value=-1)
        waits = next_ >= 0
        new = jnp.where(waits, next_, member[slot])
        numbers, carry = _put(numbers, slot, _row(own, new)), _put(carry, slot, _row(rows, new))
        return ended.at[slot].set(False), rows, seated + waits, member.at[slot].set(new), numbers, carry

    def going(state):
        return (state[5].status == loop.RUNNING).any() & (state[-1] < budget)

    start = slots.rows, slots.saved, slots.seated, slots.member, numbers, slots.carry, slots.taken, jnp.zeros((), int)
    rows, saved, seated, member, numbers, carry, taken, _ = jax.lax.while_loop(going, turn, start)
    return Slots(rows, saved, slots.queue, seated, member, eqx.combine(numbers, rest), carry, taken)


def finish_(problem: Problem, rows: loop.Carry, saved: Any, queue: Array, width: int) -> tuple[loop.Carry, Any]:
    """The last steps of the members that the rule has ended, `width` of them at a time; a number beyond all members stands
    for none."""
    end = eqx.filter_vmap(lambda flow, carry: loop.last(flow, problem.stepper, problem.settings, problem.stop, carry))
    blocks = -(-len(queue) // width)
    queue = jnp.pad(queue, (0, blocks * width - len(queue)), constant_values=len(queue))

    def block(state):
        rows, saved, begin = state
        member = jax.lax.dynamic_slice_in_dim(queue, begin, width)
        there = jnp.minimum(member, len(rows.t) - 1)
        flow, carry = _at(problem.flow, there), _at(rows, there)
        new, dense = end(flow, carry)
        saved, new = _save(problem, flow, member, carry, new, dense, saved)
        rows = jax.tree.map(lambda all_, some: all_.at[member].set(some, mode="drop"), rows, new)
        return rows, saved, begin + width

    last = jnp.sum(queue < len(rows.t))
    rows, saved, _ = jax.lax.while_loop(lambda state: state[-1] < last, block, (rows, saved, jnp.zeros((), int)))
    return rows, saved


def _save(
    problem: Problem, flow: AbstractFlow, member: Array, old: loop.Carry, new: loop.Carry, dense: Any, saved: Any
):
    """What members keep at the times between `old` and `new`: pairs (member, time), in blocks of as many as there are slots."""
    times = problem.settings.save_at
    if not times.size:
        return saved, new
    first, until = old.saved_count, jnp.searchsorted(times, new.t, side="right", method="compare_all")
    until = jnp.maximum(first, until.astype(first.dtype))
    pairs = jnp.cumsum(until - first)
    width = len(member)

    @eqx.filter_vmap
    def value(flow, t0, t1, t, y, dense, time):
        between = loop.inside(flow, problem.stepper, t0, t1, dense)(time)
        if problem.observe is None:
            return loop.choose(time == t, y, between)
        return problem.observe(flow.unpack(between))

    def block(state):
        saved, begin = state
        pair = begin + jnp.arange(width)
        slot = jnp.minimum(jnp.searchsorted(pairs, pair, side="right", method="compare_all"), width - 1)
        k = until[slot] - (pairs[slot] - pair)
        given = flow, old.t, old.t_next, new.t, new.y, dense
        found = value(*(_at(tree, slot) for tree in given), times.at[k].get(mode="clip"))
        where = jnp.where(pair < pairs[-1], member[slot], len(jax.tree.leaves(saved)[0]))
        saved = jax.tree.map(lambda all_, some: all_.at[where, k].set(some, mode="drop"), saved, found)
        return saved, begin + width

    saved, _ = jax.lax.while_loop(lambda state: state[1] < pairs[-1], block, (saved, jnp.zeros((), int)))
    return saved, eqx.tree_at(lambda c: c.saved_count, new, until)


def _at(tree: Any, index: Array) -> Any:
    return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)


def _row(tree: Any, k: Array) -> Any:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, k, keepdims=False), tree)


def _put(tree: Any, k: Array, row: Any) -> Any:
    return jax.tree.map(lambda leaf, one: jax.lax.dynamic_update_index_in_dim(leaf, one, k, 0), tree, row)


def choose_each(condition: Array, yes: Any, no: Any) -> Any:
    """Member by member."""
    pick = lambda a, b: jnp.where(condition.reshape(-1, *(1,) * (a.ndim - 1)), a, b)  # noqa: E731
    return jax.tree.map(pick, yes, no)


_start = eqx.filter_vmap(loop.start_, in_axes=(loop.each, None, None, None, loop.each, None, loop.each))
WIDE = loop.WIDE_VECTORS
start, seat = eqx.filter_jit(_start), eqx.filter_jit(seat_)
advance = eqx.filter_jit(advance_, compiler_options=WIDE)  # type: ignore[call-overload]
finish = eqx.filter_jit(finish_, compiler_options=WIDE)  # type: ignore[call-overload]
start_alone = eqx.filter_jit(_start, compiler_options=ONE_THREAD)  # type: ignore[call-overload]
advance_alone = eqx.filter_jit(advance_, compiler_options=WIDE | ONE_THREAD)  # type: ignore[call-overload]
finish_alone = eqx.filter_jit(finish_, compiler_options=WIDE | ONE_THREAD)  # type: ignore[call-overload]
