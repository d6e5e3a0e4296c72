"""How a run ended, and the checks at the end of every run, which raise SolverError."""

from collections.abc import Sequence
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..flows import AbstractFlow
from ..normalization import AbstractSphereNorm
from ..results.finished import event
from ..solver.base import BLOW_UP, FAILED, FOLDED, REASONS, STOPPED, UNRESOLVED, VANISHED, AbstractMethod
from ..states import Tokens
from ..transformer import Transformer
from .errors import SolverError
from .members import by_model
from .smooth import Outcome

FOLD = (
    "a layer maps different tokens to one point, where the density becomes infinite: use a smaller step, or tokens, "
    "e.g. traj.final.sample(n, seed)"
)
LENGTH_ERROR = 1e-9  # relative; a retraction leaves about 1e-16


def event_kinds(rule: Any) -> dict[int, str]:
    """Return the kind of event for each status that ends a run early."""
    kinds = {status: REASONS[status] for status in (BLOW_UP, VANISHED, UNRESOLVED, FOLDED)}
    return kinds if rule is None else kinds | {STOPPED: rule.kind}


def end_event(status: int, time: float, rule: Any, flow: AbstractFlow) -> list[dict[str, Any]]:
    """Return a list with the event that ended a run early; an empty list if the run reached t1."""
    kind = event_kinds(rule).get(status)
    message = {UNRESOLVED: flow.limits.hidden_reason, FOLDED: FOLD}.get(status, "")
    return [] if kind is None else [event(kind, time, message)]


def how_ended(outcome: Outcome, method: AbstractMethod) -> tuple[int, float]:
    """Return the `(status, time)` of the end of a run; raise SolverError if a step failed for a reason that is not a result."""
    if outcome.status != FAILED:
        return outcome.status, outcome.t
    return why_failed(method, outcome.flow, outcome.t, outcome.y)


def why_failed(method: AbstractMethod, flow: AbstractFlow, t: float, y: Any) -> tuple[int, float]:
    """Return the `(status, time)` of a run of which no step succeeds after time t; raise SolverError if that is not a result."""
    found = _why_failed(method, flow, jnp.asarray(t), y)
    status, time = int(found[0]), float(found[1])
    if status == FAILED:
        fail(method, flow, t, y)
    return status, time


def fail(method: AbstractMethod, flow: AbstractFlow, t: float, y: Any) -> NoReturn:
    """Raise the SolverError of a run of which no step succeeds after time t."""
    raise SolverError(method.fault(flow, t, y))


@eqx.filter_jit
def _why_failed(method: AbstractMethod, flow: Any, t: Any, y: Any) -> tuple[Any, Any]:
    return method.why_failed(flow, t, y)


def check_end(t: float, t1: float, events: Any) -> None:
    """Raise SolverError unless a run ended at t1, or earlier with an event that says why."""
    if not t >= t1 * (1 - 1e-12) and not events:
        raise SolverError(f"the run ended at t = {t:.6g} before t1 = {t1:.6g} without a reason: please report this bug")


def check_tokens(model: Transformer, states: Any) -> None:
    """Raise SolverError unless all tokens are finite and have the length that the norm fixes, if it fixes one."""
    if not isinstance(states, Tokens):
        return
    x = np.asarray(states.x)
    fixed = isinstance(model.norm, AbstractSphereNorm) and not model.norm.radial
    radius = model.norm.radius(x.shape[-1]) if fixed else None  # type: ignore[attr-defined]
    if not np.isfinite(x).all():
        raise SolverError("a token ends with coordinates that are not finite: please report this bug")
    if radius is None:
        return
    lengths = np.linalg.norm(x, axis=-1)
    worst = float(lengths.flat[np.abs(lengths - float(radius)).argmax()])
    if abs(worst - float(radius)) > LENGTH_ERROR * float(radius):
        raise SolverError(
            f"a token ends with length {worst:.6g} on the sphere of radius {float(radius):g}: please report this bug"
        )


def check_members(
    models: Sequence[Transformer], final: Any, reached: np.ndarray, t1: float, kinds: Sequence[str | None]
) -> None:
    """Apply both checks to every member of an ensemble; the last states have a leading member axis."""
    for t, kind in zip(reached.tolist(), kinds, strict=True):
        check_end(t, t1, kind)
    for members in by_model(models).values():
        check_tokens(models[members[0]], jax.tree.map(lambda leaf, members=members: leaf[members], final))
