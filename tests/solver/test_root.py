"""The time at which a function changes its sign."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenfield.solver.root import sign_change

EPS = np.finfo(float).eps


def found(function, begin, end):
    """The sign change, and the number of evaluations."""
    times = []

    def recorded(t):
        jax.debug.callback(lambda t: times.append(float(t)), t)
        return function(t)

    root = float(jax.jit(lambda begin, end: sign_change(recorded, begin, end))(float(begin), float(end)))
    jax.effects_barrier()
    assert all(begin <= t <= end for t in times)
    return root, len(times)


@pytest.mark.parametrize(
    ("function", "begin", "end", "exact"),
    [
        (lambda t: t**2 - 2, 0, 2, np.sqrt(2)),
        (lambda t: jnp.exp(3 * t) - 7, 0, 1, np.log(7) / 3),
        (lambda t: 1e-3 - jnp.exp(-20 * t), 0.1, 3, np.log(1e3) / 20),
        (lambda t: t - 1e6 - 0.125, 1e6, 1e6 + 1, 1e6 + 0.125),
        (lambda t: jnp.where(t < 0.5, t - 1, t - 0.7), 0, 1, 0.7),  # discontinuous elsewhere
    ],
)
def test_smooth_functions_need_few_evaluations(function, begin, end, exact):
    root, evaluations = found(function, begin, end)
    assert abs(root - exact) <= 6 * EPS * end
    assert function(jnp.asarray(root)) >= -4 * EPS
    assert evaluations <= 13


@pytest.mark.parametrize("function", [lambda t: jnp.where(t >= 0.7123, 1.0, -1.0), lambda t: (t - 0.7123) ** 3])
def test_other_functions_are_bisected(function):
    root, evaluations = found(function, 0, 1)
    assert abs(root - 0.7123) <= 6 * EPS
    assert evaluations <= 75


def test_the_root_is_on_the_side_where_the_function_holds():
    """A state at a stop must fulfill the rule, whatever the rounding."""
    for exact in np.random.default_rng(0).uniform(size=40):
        root = sign_change(lambda t, exact=exact: jnp.tanh(9 * (t - exact)), jnp.asarray(0.0), jnp.asarray(1.0))
        assert exact <= float(root) <= exact + 6 * EPS


def test_nan_is_negative():
    root, _ = found(lambda t: jnp.where(t < 0.4, jnp.nan, t - 0.2), 0, 1)
    assert 0.4 <= root <= 0.4 + 6 * EPS


def test_an_empty_bracket_is_not_searched():
    """In a batch, members that did not stop have one."""
    roots = jax.jit(jax.vmap(lambda begin, c: sign_change(lambda t: t - c, begin, jnp.ones(()))))(
        jnp.array([0.0, 1.0, 0.0]), jnp.array([0.3, jnp.nan, 0.9])
    )
    np.testing.assert_allclose(roots, [0.3, 1.0, 0.9], atol=6 * EPS)
