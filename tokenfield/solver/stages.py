"""Stages of an explicit Runge–Kutta method, with the coefficients and the interpolant of a Diffrax solver.

Diffrax's own `step` supports either forward or reverse mode. This one supports both, because its loop over the stages has
a fixed length.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Field = Callable[[Array, Any], Any]
HERMITE = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k


class Stages(NamedTuple):
    """The result of one step: the unknowns at its end, the error estimate, the last slope, and the data of the interpolant."""

    y1: Any
    error: Any
    slope: Any
    dense: dict[str, Any]


def looped(solver: diffrax.AbstractERK, field: Field, t0: Array, t1: Array, y0: Any, slope: Any) -> Stages:
    """Take a step with the stages in a loop. The program has one copy of the right-hand side, so it compiles quickly."""
    table, h = solver.tableau, t1 - t0
    assert isinstance(table, diffrax.ButcherTableau)
    count = table.num_stages
    lower = np.zeros((count, count))
    for row, values in enumerate(table.a_lower):
        lower[row + 1, : len(values)] = np.asarray(values, float)
    a, c = jnp.asarray(lower), jnp.asarray(np.concatenate([[0.0], np.asarray(table.c, float)]))

    def stage(i, carry):
        slopes, _ = carry
        y = moved(y0, h, a[i], slopes)
        f = field(t0 + c[i] * h, y)
        return jax.tree.map(lambda k, f: k.at[i].set(f), slopes, f), y

    first = jax.tree.map(lambda f: jnp.zeros((count, *f.shape), f.dtype).at[0].set(f), slope)
    slopes, y1 = jax.lax.fori_loop(1, count, stage, (first, y0))
    if not table.fsal:
        y1 = moved(y0, h, jnp.asarray(table.b_sol), slopes)
    error = jax.tree.map(lambda k: h * jnp.tensordot(jnp.asarray(table.b_error), k, 1), slopes)
    last = jax.tree.map(lambda k: k[-1], slopes)
    k = jax.tree.map(lambda k: h * k, slopes)
    return Stages(y1, error, last, {"t0": t0, "t1": t1, "y0": y0, "y1": y1, "k": k})


def unrolled(solver: diffrax.AbstractERK, field: Field, t0: Array, t1: Array, y0: Any, slope: Any) -> Stages:
    """Take the same step with the stages unrolled. It compiles more slowly, but batches of small members run faster."""
    table, h = solver.tableau, t1 - t0
    assert isinstance(table, diffrax.ButcherTableau)
    slopes, y1 = [slope], y0
    for c, row in zip(table.c, table.a_lower, strict=True):
        y1 = _combined(y0, h, row, slopes)
        slopes.append(field(t0 + float(c) * h, y1))
    if not table.fsal:
        y1 = _combined(y0, h, table.b_sol, slopes)
    error = jax.tree.map(lambda e: h * e, _sum([float(b) for b in table.b_error], slopes))
    used = [slopes[0], slopes[-1]] if solver.interpolation_cls == HERMITE else slopes
    return Stages(y1, error, slopes[-1], {"t0": t0, "t1": t1, "y0": y0, "y1": y1, "slopes": used})


def no_stages(solver: diffrax.AbstractERK, y: Any, slopes: int | None, listed: bool) -> dict[str, Any]:
    """Return the data of the interpolant of a step of size 1 that stays at 0.

    Args:
        slopes: the number of stored slopes; None for those of `looped`, or of `unrolled` if they are `listed`.
    """
    zero, count = jax.tree.map(jnp.zeros_like, y), solver.tableau.num_stages  # type: ignore[union-attr]
    ends = {"t0": jnp.zeros(()), "t1": jnp.ones(()), "y0": zero, "y1": zero}
    if slopes is None and listed:
        return ends | {"slopes": [zero] * (2 if solver.interpolation_cls == HERMITE else count)}
    rows = count if slopes is None else slopes
    return ends | {"k": jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), y)}


def between(interpolant: Callable[..., Any], dense: dict[str, Any], t: Array) -> Any:
    """Evaluate the interpolant of a step at time t."""
    if "k" in dense:
        return interpolant(**dense).evaluate(t)
    # The interpolant is linear in y0, y1 and the slopes, so its values for unit vectors are their coefficients.
    parts, h = [dense["y0"], dense["y1"], *dense["slopes"]], dense["t1"] - dense["t0"]
    unit = jnp.eye(len(parts))
    own = interpolant(t0=jnp.zeros(()), t1=jnp.ones(()), y0=unit[0], y1=unit[1], k=unit[2:])
    weights = own.evaluate((t - dense["t0"]) / h)
    return _sum([weights[j] if j < 2 else h * weights[j] for j in range(len(parts))], parts)


def moved(y0: Any, h: Array, coefficients: Array, slopes: Any) -> Any:
    """Return `y0 + h sum_j a_j k_j` for slopes k with a leading stage axis."""
    return jax.tree.map(lambda y, k: y + h * jnp.tensordot(coefficients, k, 1), y0, slopes)


def _combined(y0: Any, h: Array, coefficients: Any, slopes: list[Any]) -> Any:
    increment = _sum([float(a) for a in coefficients], slopes)
    return jax.tree.map(lambda y, dy: y + h * dy, y0, increment)


def _sum(coefficients: list[Any], parts: list[Any]) -> Any:
    """Return `sum_j a_j k_j`, skipping terms whose coefficient is a literal 0."""
    used = [j for j, a in enumerate(coefficients) if not (isinstance(a, float) and a == 0)]
    return jax.tree.map(lambda *leaves: sum(coefficients[j] * leaves[j] for j in used), *parts)
