"""Stages of an explicit Runge–Kutta method, with the coefficients and the interpolant of a Diffrax solver.

Diffrax's own `step` supports either forward or reverse mode. This one supports both, because its loop over the stages has
a fixed length.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Field = Callable[[Array, Any], Any]
HERMITE = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k


class Step(NamedTuple):
    """The result of one step: the unknowns at its end, the error estimate, the last slope, and the data of the interpolant."""

    y1: Any
    error: Any
    slope: Any
    """The last slope; None unless the next step begins with it."""
    dense: dict[str, Any]


class AbstractStages(eqx.Module):
    """How the stages of a step are computed, and the solution between its ends."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of the method."""

    @property
    @abc.abstractmethod
    def keeps_slope(self) -> bool:
        """True if the last slope of a step is the first of the next."""

    @abc.abstractmethod
    def take(self, flow: Any, field: Field, t0: Array, t1: Array, y0: Any, slope: Any) -> Step:
        """Take a step.

        Args:
            field: the right-hand side of the flow, with the checks of a derivative.
            slope: the slope at t0, or None if it is not known.
        """

    @abc.abstractmethod
    def none(self, y: Any) -> dict[str, Any]:
        """Return the `dense` of a step of size 1 that stays at 0."""

    @abc.abstractmethod
    def between(self, flow: Any, field: Field, dense: dict[str, Any], t: Array) -> Any:
        """Return the unknowns at a time t within a step."""


class Looped(AbstractStages):
    """Stages in a loop. The program has one copy of the right-hand side, so it compiles quickly."""

    solver: diffrax.AbstractERK

    @property
    def name(self):
        return type(self.solver).__name__.lower()

    @property
    def keeps_slope(self):
        return self.solver.tableau.fsal  # type: ignore[union-attr]

    def take(self, flow, field, t0, t1, y0, slope):
        slope = field(t0, y0) if slope is None else slope
        table, h = self.solver.tableau, t1 - t0
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
        last = jax.tree.map(lambda k: k[-1], slopes) if table.fsal else None
        k = jax.tree.map(lambda k: h * k, slopes)
        return Step(y1, error, last, {"t0": t0, "t1": t1, "y0": y0, "y1": y1, "k": k})

    def none(self, y):
        return at_rest(y) | {"k": no_slopes(y, self.solver.tableau.num_stages)}  # type: ignore[union-attr]

    def between(self, flow, field, dense, t):
        return self.solver.interpolation_cls(**dense).evaluate(t)


class Unrolled(AbstractStages):
    """The same stages one after another. They compile more slowly, but batches of small members run faster."""

    solver: diffrax.AbstractERK

    @property
    def name(self):
        return type(self.solver).__name__.lower()

    @property
    def keeps_slope(self):
        return self.solver.tableau.fsal  # type: ignore[union-attr]

    def take(self, flow, field, t0, t1, y0, slope):
        slopes, y1 = [field(t0, y0) if slope is None else slope], y0
        table, h = self.solver.tableau, t1 - t0
        assert isinstance(table, diffrax.ButcherTableau)
        for c, row in zip(table.c, table.a_lower, strict=True):
            y1 = _combined(y0, h, row, slopes)
            slopes.append(field(t0 + float(c) * h, y1))
        if not table.fsal:
            y1 = _combined(y0, h, table.b_sol, slopes)
        error = jax.tree.map(lambda e: h * e, _sum([float(b) for b in table.b_error], slopes))
        used = [slopes[0], slopes[-1]] if self.solver.interpolation_cls == HERMITE else slopes
        last = slopes[-1] if table.fsal else None
        return Step(y1, error, last, {"t0": t0, "t1": t1, "y0": y0, "y1": y1, "slopes": used})

    def none(self, y):
        stored = 2 if self.solver.interpolation_cls == HERMITE else self.solver.tableau.num_stages  # type: ignore[union-attr]
        rest = at_rest(y)
        return rest | {"slopes": [rest["y0"]] * stored}

    def between(self, flow, field, dense, t):
        # The interpolant is linear in y0, y1 and the slopes, so its values for unit vectors are their coefficients.
        parts, h = [dense["y0"], dense["y1"], *dense["slopes"]], dense["t1"] - dense["t0"]
        unit, interpolant = jnp.eye(len(parts)), self.solver.interpolation_cls
        own = interpolant(t0=jnp.zeros(()), t1=jnp.ones(()), y0=unit[0], y1=unit[1], k=unit[2:])
        weights = own.evaluate((t - dense["t0"]) / h)
        return _sum([weights[j] if j < 2 else h * weights[j] for j in range(len(parts))], parts)


def at_rest(y: Any) -> dict[str, Any]:
    """Return the ends of a step of size 1 that stays at 0."""
    zero = jax.tree.map(jnp.zeros_like, y)
    return {"t0": jnp.zeros(()), "t1": jnp.ones(()), "y0": zero, "y1": zero}


def no_slopes(y: Any, count: int) -> Any:
    """Return `count` slopes of 0, with a leading axis."""
    return jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), y)


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
