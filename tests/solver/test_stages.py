"""Steps, looped and with their stages written out, are those of Diffrax."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenfield.solver.methods import RUNGE_KUTTA
from tokenfield.solver.stages import Looped, Unrolled

TERM = diffrax.ODETerm(lambda t, y, args: (jnp.sin(t) * y[1] - y[0] ** 2, args * y[0] * y[1]))
T0, T1, ARGS = jnp.asarray(0.3), jnp.asarray(0.71), 1.7
START = (jnp.array([0.4, -0.2, 1.1]), jnp.array([0.9, 0.1, -0.5]))
NAMES = [name for name in RUNGE_KUTTA if name != "lawson"]


def diffrax_step(solver):
    state = solver.init(TERM, T0, T1, START, ARGS)
    if state is not None:
        state = jnp.array(False), TERM.vf(T0, START, ARGS)
    return solver.step(TERM, T0, T1, START, ARGS, state, False)


def close(ours, theirs, tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.grid
@pytest.mark.parametrize("kind", [Looped, Unrolled])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_that_of_diffrax(name, kind):
    solver = RUNGE_KUTTA[name].stages.solver
    field = lambda t, y: TERM.vf(t, y, ARGS)  # noqa: E731
    stages = kind(solver)
    ours = stages.take(None, field, T0, T1, START, field(T0, START))
    y1, error, dense, state, _ = diffrax_step(solver)
    close(ours.y1, y1, 1e-14)
    if error is not None:
        close(ours.error, error, 1e-14)
    if state is not None:
        close(ours.slope, state[1], 1e-14)
    expected = solver.interpolation_cls(t0=T0, t1=T1, **dense)
    for t in np.linspace(float(T0), float(T1), 5):
        found = stages.between(None, None, ours.dense, jnp.asarray(t))
        close(found, expected.evaluate(jnp.asarray(t)), 1e-14)


@pytest.mark.parametrize("kind", [Looped, Unrolled])
def test_a_step_can_be_differentiated_in_both_modes(kind):
    stages = kind(RUNGE_KUTTA["tsit5"].stages.solver)

    def end(a):
        field = lambda t, y: TERM.vf(t, y, a)  # noqa: E731
        return stages.take(None, field, T0, T1, START, field(T0, START)).y1[1].sum()

    forward = jax.jvp(end, (ARGS,), (1.0,))[1]
    assert float(forward) == pytest.approx(float(jax.grad(end)(ARGS)), rel=1e-13)
    assert float(forward) == pytest.approx(float(end(ARGS + 1e-5) - end(ARGS - 1e-5)) / 2e-5, rel=1e-8)
