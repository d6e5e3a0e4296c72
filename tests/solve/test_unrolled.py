"""Steps with their stages written out are those of Diffrax."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenfield.solve.steppers import STEPPERS
from tokenfield.solve.unrolled import Unrolled, unrolled

TERM = diffrax.ODETerm(lambda t, y, args: (jnp.sin(t) * y[1] - y[0] ** 2, args * y[0] * y[1]))
T0, T1, ARGS = 0.3, 0.71, 1.7
START = (jnp.array([0.4, -0.2, 1.1]), jnp.array([0.9, 0.1, -0.5]))
EXPLICIT = [name for name, stepper in STEPPERS.items() if isinstance(stepper.solver, diffrax.AbstractERK)]


def step(solver):
    state = solver.init(TERM, T0, T1, START, ARGS)
    if state is not None:
        state = jnp.array(False), TERM.vf(T0, START, ARGS)
    return solver.step(TERM, jnp.asarray(T0), jnp.asarray(T1), START, ARGS, state, False)


def close(ours, theirs, tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", EXPLICIT)
def test_a_step_is_that_of_diffrax(name):
    ours, theirs = unrolled(STEPPERS[name]).solver, STEPPERS[name].solver
    assert isinstance(ours, Unrolled)
    y1, error, dense, state, _ = step(ours)
    expected_y1, expected_error, expected_dense, expected_state, _ = step(theirs)
    close(y1, expected_y1, 1e-14)
    if expected_error is not None:
        close(error, expected_error, 1e-14)
    close(state, expected_state, 1e-14)
    t0, t1 = jnp.asarray(T0), jnp.asarray(T1)
    between = ours.interpolation_cls(t0=t0, t1=t1, **dense)
    expected = theirs.interpolation_cls(t0=t0, t1=t1, **expected_dense)
    for t in np.linspace(T0, T1, 5):
        close(between.evaluate(jnp.asarray(t)), expected.evaluate(jnp.asarray(t)), 1e-14)


def test_other_steppers_stay_as_they_are():
    assert unrolled(STEPPERS["lawson"]) is STEPPERS["lawson"]
