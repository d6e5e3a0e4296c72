"""A while loop that can be differentiated: in forward and in reverse mode, or by one of Diffrax's adjoints."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array

from .._shown import shown

T = TypeVar("T")
STORED_STEPS = 64
DECISION = "decision"
ADJOINTS = (diffrax.ForwardMode, diffrax.RecursiveCheckpointAdjoint, diffrax.DirectAdjoint)


def check_adjoint(adjoint: Any) -> None:
    """Raise ValueError unless `adjoint` is None or one of Diffrax's adjoints that a loop supports."""
    if adjoint is not None and not isinstance(adjoint, ADJOINTS):
        names = ", ".join(f"diffrax.{kind.__name__}()" for kind in ADJOINTS)
        raise ValueError(f"adjoint must be None or one of {names}, got {shown(adjoint)}")


def while_loop(
    condition: Callable[[T], Array], body: Callable[[T], T], start: T, max_steps: int, adjoint: Any = None
) -> T:
    """Return the first of `start, body(start), …` for which `condition` is false, after at most `max_steps` calls of body.

    By default (`adjoint=None`) the value is that of `lax.while_loop`, and forward and reverse mode both work. Reverse mode
    stores what it needs of the first STORED_STEPS steps. Further steps are computed twice: of these it stores
    `sqrt(max_steps)` states, and what it needs of as many steps at a time.
    """
    match adjoint:
        case diffrax.ForwardMode():
            return jax.lax.while_loop(condition, body, start)
        case diffrax.RecursiveCheckpointAdjoint():
            checkpoints = adjoint.checkpoints
            return eqxi.while_loop(
                condition, body, start, max_steps=max_steps, kind="checkpointed", checkpoints=checkpoints
            )
        case diffrax.DirectAdjoint():
            return eqxi.while_loop(condition, body, start, max_steps=max_steps, kind="bounded", base=4)
    # Values that the functions close over become arguments: a custom derivative must not close over what is differentiated.
    given = eqx.filter_closure_convert(condition, start), eqx.filter_closure_convert(body, start), start
    arrays, static = eqx.partition(given, eqx.is_array)

    @jax.custom_jvp
    def loop(arrays):
        going, move, state = eqx.combine(arrays, static)
        return jax.lax.while_loop(lambda state: going(state), lambda state: move(state), state)

    @loop.defjvp
    def _(primals, tangents):
        def scanned(arrays):
            going, move, state = eqx.combine(arrays, static)
            return _scanned(going, move, state, max_steps)

        return jax.jvp(scanned, primals, tangents)

    return loop(arrays)


def decided(tree: Any) -> Any:
    """Mark the decisions of a step, such as its size: numbers that `recomputed` stores.

    A recomputed step is rounded differently. If its error estimate is only rounding, the recomputed step might choose
    another size.
    """
    return jax.tree.map(lambda leaf: checkpoint_name(leaf, DECISION), tree)


def recomputed(function: Callable) -> Callable:
    """Return a function whose arguments and decisions are stored in reverse mode; the rest is recomputed."""
    return jax.checkpoint(function, policy=jax.checkpoint_policies.save_only_these_names(DECISION))


def _scanned(condition: Callable, body: Callable, start: Any, max_steps: int) -> Any:
    """Run the same loop as scans of a fixed length. Under vmap a block is skipped only if every member has ended."""

    def scan(step: Callable, length: int) -> Callable:
        def guarded(state, _):
            move = lambda: jax.tree.map(  # noqa: E731
                lambda new, old: jax.numpy.where(condition(state), new, old), step(state), state
            )
            return jax.lax.cond(eqxi.unvmap_any(condition(state)), move, lambda: state), None

        return lambda state: jax.lax.scan(guarded, state, None, length=length)[0]

    state = scan(body, min(STORED_STEPS, max_steps))(start)
    if max_steps <= STORED_STEPS:
        return state
    length = math.isqrt(max_steps - STORED_STEPS - 1) + 1
    return scan(recomputed(scan(body, length)), length)(state)
