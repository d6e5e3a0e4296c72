"""`solve`: a run as a pure JAX function."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._check import as_float, count, is_concrete
from .._jax import require_double
from .._shown import shown
from .._types import Number, Vector
from ..flows import AbstractFlow, AbstractNoisyFlow, segments
from ..flows.base import Segment
from ..states.base import require_one
from ..stop_rule import AbstractStopRule, as_rule
from ..transformer import Transformer, only_transformer
from .base import FAILED, FINISHED, MAX_STEPS, RUNNING, STOPPED, AbstractMethod, Carry, Problem, Settings, choose
from .coarsen import NO_PURE_RUN
from .langevin import Langevin, default_dt
from .loop import advance, begin, differentiable_unknowns_at
from .methods import checked_method, runge_kutta, segments_of
from .solution import Solution, recorded_rule, row
from .stop import OnFlow
from .while_loop import check_adjoint, recomputed


def solve(
    model: Transformer,
    state: Any,
    t1: Number,
    *,
    save_at: Vector | None = None,
    rtol: Number = 1e-6,
    atol: Number = 1e-9,
    method: str | AbstractMethod | None = None,
    dt: Number | None = None,
    stop_when: AbstractStopRule | Callable | None = None,
    key: PRNGKeyArray | None = None,
    max_steps: int = 4096,
    adjoint: Any = None,
) -> Solution:
    """Solve `d mu/dt + div(mu v) = 0` from time 0 to t1, where v is the model's velocity: a pure JAX function (FORMULAS §2).

    It supports `jax.jit`, `jax.vmap`, `jax.jvp` and `jax.grad`, with respect to every number in the model and the state,
    to t1 and to save_at. `simulate` is the same run with a driver around it: checks, progress, checkpoints, a dataset.

    Args:
        model: the Transformer.
        state: the measure, e.g. `Tokens`.
        t1: end time.
        save_at: (m,) increasing times in [0, t1] at which to save states; t1 alone by default. Under `jax.vmap` all runs wait
            for each other at each of these times: with many of them, `jax.lax.map` or `simulate_many` takes less time.
        rtol, atol: tolerances of a step, as for `simulate`.
        method: the name of a Runge–Kutta method, "tsit5" by default ("lawson" for densities); with noise "heun" or "euler";
            or a method such as `Layers(step=1.0)`, the discrete Transformer, which runs `t1/step` layers.
        dt: a fixed step size instead of error control; with noise the largest step size (see `simulate`).
        stop_when: a rule such as `one_cluster()`, or a function of the state. A function that returns a real number stops
            the run where it is >= 0, at a time that can be differentiated; one that returns a bool has no derivative. It is
            tested at the end of each step, so a rule that holds for less than a step may be missed. Runs with noise and
            `Layers` stop at the end of a step, and the derivative of that time is NaN.
        key: the random key of a model with noise, e.g. `jax.random.key(0)`.
        max_steps: maximum number of steps, including rejected ones.
        adjoint: how derivatives are computed. None supports forward and reverse mode, with memory that grows as
            `sqrt(max_steps)`. Diffrax's `diffrax.ForwardMode()`, `diffrax.RecursiveCheckpointAdjoint()` and
            `diffrax.DirectAdjoint()` are also supported. The second recomputes steps together with their sizes, which may
            differ where rtol is near rounding: at 1e-11 the derivative was then found to differ by 1e-7 of its value.

    Returns:
        A `Solution`. No error depends on the values of arrays: check its `status`.

    Example:
        >>> import jax, tokenfield as tkf
        >>> def rho(beta):
        ...     model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        ...     return tkf.solve(model, tkf.Equiangular(rho=0.0, n=32), t1=5.0).final.rho
        >>> jax.grad(rho)(1.0)
        Array(-0.00041575, dtype=float64, weak_type=True)
    """
    require_double()
    only_transformer(model)
    require_one("solve", state)
    check_adjoint(adjoint)
    max_steps = count("max_steps", max_steps)
    t1 = as_float("t1", t1, 0)
    if is_concrete(t1) and not float(t1) > 0:
        raise ValueError(f"t1 must be a number > 0, got {float(t1):g}")
    times = t1[None] if save_at is None else as_float("save_at", save_at, 1)
    if save_at is not None and is_concrete(times, t1):
        known = np.asarray(times)
        if known.size == 0 or (np.diff(known) <= 0).any() or known[0] < 0 or known[-1] > float(t1):
            raise ValueError(f"save_at must increase within [0, t1] = [0, {float(t1):g}], got {shown(known.tolist())}")
    parts, method = _plan(model, state, t1, times, method, dt, key)
    rule = as_rule(stop_when)
    stop = None if rule is None else OnFlow(rule.resolve(model, state))
    tolerances = as_float("rtol", rtol, 0), as_float("atol", atol, 0)

    return _run(parts, method, stop, state, t1, times, tolerances, max_steps, adjoint, save_at is None)


@eqx.filter_jit
def _run(
    parts: tuple[Segment, ...],
    method: AbstractMethod,
    stop: OnFlow | None,
    state: Any,
    t1: Array,
    times: Array,
    tolerances: tuple[Array, Array],
    max_steps: int,
    adjoint: Any,
    end_alone: bool,
) -> Solution:
    """Run the segments in one program. `end_alone`: t1 is the only save time."""

    def segment(until: Any, flow: AbstractFlow, start: Array, run: Carry | None) -> tuple[Carry, Any, Array, Array]:
        """Return the run at the end of a segment, the rows at all save times, which of these it has reached, and the end."""
        end = jnp.where(until < t1, until, t1)  # unlike a minimum, it has the derivative of t1 if both are equal
        # Where the right-hand side jumps it is evaluated just before the end. nextafter has no derivative.
        fixed = jax.lax.stop_gradient(end)
        before = end - (fixed - jnp.nextafter(fixed, -jnp.inf))
        settings = Settings(end, jnp.where(until <= t1, before, end), times, *tolerances)
        problem = Problem(flow, method, settings, stop)
        if run is None:
            zero = jnp.zeros((), int)
            run = begin(problem, start, flow.pack(state), zero, zero)
            run = eqx.tree_at(lambda c: c.status, run, jnp.where(start < end, run.status, FINISHED))  # t1 may be traced
        else:  # a run that has ended, also at t1, keeps its carry
            goes_on = (run.status == FINISHED) & (start < end)
            run = choose(goes_on, begin(problem, start, run.y, run.steps, run.rejected), run)
        begun = run.status == RUNNING
        run, saved, reached = _segment(problem, run, max_steps, adjoint, end_alone)
        return choose(begun, _diagnosed(flow, method, run), run), saved, reached, end

    def next_segment(so_far: Any, until: Any, flow: AbstractFlow) -> Any:
        run, states, seen, start = so_far
        run, saved, reached, end = segment(until, flow, start, run)
        fresh = reached & (times > start)
        return run, choose(fresh, saved, states), seen | fresh, end

    ends = [*(part.until for part in parts[:-1]), jnp.inf]
    so_far = segment(ends[0], parts[0].flow, jnp.zeros(()), None)
    for group in _alike([part.flow for part in parts], 1):
        so_far = _through(next_segment, so_far, [ends[k] for k in group], [parts[k].flow for k in group])
    run, states, seen, _ = so_far
    final = _row(parts[-1].flow, run.t, run.y)
    status = jnp.where(run.status == RUNNING, MAX_STEPS, run.status).astype(int)
    known = (status == FINISHED) | ((status == STOPPED) & method.interpolates)
    states, scaled = jax.tree.map(lambda leaf: choose(seen, leaf, jnp.full_like(leaf, jnp.nan)), states)
    return Solution(
        times=jnp.where(seen, times, jnp.nan),
        states=states,
        final=final[0],
        status=status,
        event_time=jnp.where(status == FINISHED, jnp.inf, _known_slope(run.t, run.y, known)),
        stats={"steps": run.steps, "rejected": run.rejected},
        log_time_unit=parts[-1].flow.log_time_unit,
        method=method.name,
        settings=method.recorded(t1, *tolerances, jnp.asarray(max_steps))
        | {"stop_when": None if stop is None else recorded_rule(stop.rule)},
        scaled=None if scaled is None else (scaled, final[1]),
    )


def _alike(flows: list[AbstractFlow], first: int) -> Iterator[range]:
    """Yield the ranges of neighbors, from index `first` on, that differ only in the numbers of their arrays."""
    split = [eqx.partition(flow, eqx.is_array) for flow in flows]
    forms = [(jax.eval_shape(lambda same: same, arrays), static) for arrays, static in split]
    while first < len(flows):
        last = first + 1
        while last < len(flows) and bool(eqx.tree_equal(forms[first], forms[last])):
            last += 1
        yield range(first, last)
        first = last


def _through(step: Callable, carry: Any, ends: list[Any], flows: list[AbstractFlow]) -> Any:
    """Return `step(… step(carry, end, flow) …)` for alike flows: one program for all of them."""
    if len(flows) == 1:
        return step(carry, ends[0], flows[0])
    split = [eqx.partition(flow, eqx.is_array) for flow in flows]
    arrays = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(own for own, _ in split))
    body = lambda carry, given: (step(carry, given[0], eqx.combine(given[1], split[0][1])), None)  # noqa: E731
    return jax.lax.scan(body, carry, (jnp.stack([jnp.asarray(end, float) for end in ends]), arrays))[0]


def _row(flow: AbstractFlow, t: Array, y: Any) -> Any:
    """Return the row of the results at a time, with derivatives of the state only: `scaled` may overflow."""
    state, scaled = row(flow, t, y)
    return state, jax.lax.stop_gradient(scaled)


def _diagnosed(flow: AbstractFlow, method: AbstractMethod, carry: Carry) -> Carry:
    """Return the carry; if no step succeeded, with the status and time of the reason."""
    still = jax.lax.stop_gradient
    reason, time = still(method.why_failed(flow, still(carry.t), still(carry.y)))
    failed = carry.status == FAILED
    status = jnp.where(failed, reason, carry.status).astype(int)
    t = carry.t + jnp.where(failed, time - still(carry.t), 0.0)
    return eqx.tree_at(lambda c: (c.t, c.status), carry, (t, status))


def _plan(
    model: Transformer, state: Any, t1: Array, times: Array, method: Any, dt: Any, key: Any
) -> tuple[tuple[Segment, ...], AbstractMethod]:
    """Return the flows of a run and its method."""
    if method == "coarsen":
        raise ValueError(NO_PURE_RUN)
    if isinstance(method, AbstractMethod):
        if not (dt is None and key is None):
            raise ValueError(
                "dt and key belong to a method given by its name, got a method object: give them to that object"
            )
        return segments_of(method, state, model, t1, times), method.for_derivatives()
    parts = segments(state, model)
    flow, name = parts[0].flow, checked_method(method, state, model)
    if isinstance(flow, AbstractNoisyFlow):
        if key is None:
            raise ValueError(f"key must be given, e.g. jax.random.key(0): {type(model.noise).__name__} is random")
        step = jax.lax.stop_gradient(default_dt(flow, state, t1)) if dt is None else as_float("dt", dt, 0)
        return parts, Langevin(name, step, key).for_derivatives()
    if key is not None:
        raise ValueError("key was given, but nothing in this model is random")
    return parts, runge_kutta(name, None if dt is None else as_float("dt", dt, 0)).for_derivatives()


def _segment(problem: Problem, carry: Carry, max_steps: int, adjoint: Any, end_alone: bool) -> tuple[Carry, Any, Array]:
    """Return the end of a segment, the rows at all save times, and which of these the run has reached."""
    flow, settings = problem.flow, problem.settings

    def visit(state, time):
        target = jnp.minimum(time, settings.t1)
        carry, dense = state
        carry, dense = advance(problem, carry, dense, target, jnp.asarray(max_steps), max_steps, adjoint)
        y = differentiable_unknowns_at(problem, carry, dense, time)
        return (carry, dense), (_row(flow, jnp.minimum(time, carry.t), y), time <= carry.t)

    start, times = (carry, problem.method.no_step(carry.y)), settings.save_at
    if end_alone:
        (carry, _), saved = visit(start, times[0])
        return carry, *jax.tree.map(lambda leaf: leaf[None], saved)
    # The end of the segment is one more target, so that the steps are compiled once. Reverse mode stores a state for each.
    (carry, _), saved = jax.lax.scan(recomputed(visit), start, jnp.append(times, jnp.inf))
    return carry, *jax.tree.map(lambda leaf: leaf[:-1], saved)


@jax.custom_jvp
def _known_slope(t: Array, y: Any, known: Array) -> Array:
    """Return the time at which a run ended. Its derivative is NaN unless it is known.

    It is known for a stop located within a step, but not for one at the end of a step (noise, layers), a blow-up or a length
    of 0: the steps have no derivative of that time. The NaN is propagated from the unknowns y.
    """
    return t


@_known_slope.defjvp
def _(primals, tangents):
    unknown = jnp.where(primals[2], 0.0, jnp.nan)
    change = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tangents[1]))
    return _known_slope(*primals), tangents[0] + unknown * change
