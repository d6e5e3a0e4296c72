"""Runge–Kutta steps with their stages written out, for programs in which many small members run side by side."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from .steppers import Stepper

HERMITE = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k


def unrolled(stepper: Stepper) -> Stepper:
    """The same stepper, its stages written out where they are those of an explicit method."""
    explicit = isinstance(stepper.solver, diffrax.AbstractERK)
    return stepper._replace(solver=Unrolled(stepper.solver)) if explicit else stepper


class Unrolled(eqx.Module):
    """An explicit Runge–Kutta method of Diffrax, which takes its stages in a loop: quick to compile, but each of them reads
    the slopes of all. Here the stages stand one after the other and read those before them.

    Args:
        method: the method; its table of coefficients and its interpolant are used.
    """

    method: diffrax.AbstractERK

    def init(self, terms, t0, t1, y0, args):
        """As that of the method."""
        return self.method.init(terms, t0, t1, y0, args)

    def step(self, terms, t0, t1, y0, args, state, made_jump):
        """One step: `(y1, error, dense, state, result)`, as Diffrax's solvers give it."""
        table, h = self.method.tableau, t1 - t0
        assert isinstance(table, diffrax.ButcherTableau)
        slopes = [terms.vf(t0, y0, args) if state is None else state[1]]
        for c, a in zip(table.c, table.a_lower, strict=True):
            y1 = _moved(y0, h, a, slopes)
            slopes.append(terms.vf(t0 + float(c) * h, y1, args))
        if not table.fsal:
            y1 = _moved(y0, h, table.b_sol, slopes)
        error = jax.tree.map(lambda e: h * e, _sum([float(b) for b in table.b_error], slopes))
        used = [slopes[0], slopes[-1]] if self.method.interpolation_cls == HERMITE else slopes
        dense = {"parts": [y0, y1, *used], "method": self.method}
        return y1, error, dense, None if state is None else (state[0], slopes[-1]), None

    @property
    def interpolation_cls(self) -> Any:
        """The interpolant, from `dense`."""
        return Between


class Between(eqx.Module):
    """The interpolant of a method. It is linear in the unknowns at both ends and in the slopes, so that two numbers of it for
    each of them say all: they are those of the method for unit vectors."""

    t0: Any
    t1: Any
    parts: list[Any]
    method: diffrax.AbstractERK

    def evaluate(self, t: Any) -> Any:
        """The unknowns at time t."""
        unit = jnp.eye(len(self.parts))
        h = self.t1 - self.t0
        own = self.method.interpolation_cls(t0=jnp.zeros(()), t1=jnp.ones(()), y0=unit[0], y1=unit[1], k=unit[2:])
        weights = own.evaluate((t - self.t0) / h)
        scaled = [weights[k] if k < 2 else h * weights[k] for k in range(len(self.parts))]
        return _sum(scaled, self.parts)


def _sum(coefficients: list[Any], parts: list[Any]) -> Any:
    """`sum_j a_j k_j`, without those whose coefficient is known to be zero."""
    used = [k for k, a in enumerate(coefficients) if not (isinstance(a, float) and a == 0)]
    return jax.tree.map(lambda *leaves: sum(coefficients[k] * leaves[k] for k in used), *parts)


def _moved(y0: Any, h: Any, coefficients: Any, slopes: list[Any]) -> Any:
    """`y0 + h sum_j a_j k_j`."""
    increment = _sum([float(a) for a in coefficients], slopes)
    return jax.tree.map(lambda y, dy: y + h * dy, y0, increment)
