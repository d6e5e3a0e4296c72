"""Compare derivatives with references: both modes, relative errors."""

import jax
import jax.numpy as jnp
import numpy as np

TIGHT = {"rtol": 1e-11, "atol": 1e-13, "max_steps": 16384}
"""Options of runs whose derivatives have ten digits: the error of a derivative is like that of the run, not below it."""


def jacobians(f, p):
    """`f(p)`, and `df/dp` as `{mode: array (..., len(p))}` in forward and in reverse mode: one compiled program each."""
    p, twice = jnp.asarray(p, float), lambda p: (f(p),) * 2
    forward, value = jax.jit(jax.jacfwd(twice, has_aux=True))(p)
    reverse, again = jax.jit(jax.jacrev(twice, has_aux=True))(p)
    np.testing.assert_allclose(again, value, rtol=1e-9, atol=1e-12)
    return np.asarray(value), {"forward": np.asarray(forward), "reverse": np.asarray(reverse)}


def error(found, exact):
    """The largest error relative to the largest entry; NaN counts as infinite."""
    found, exact = np.asarray(found), np.asarray(exact)
    assert found.shape == exact.shape
    worst = np.abs(found - exact).max() / np.abs(exact).max()
    return np.inf if np.isnan(worst) else worst


def column_error(found, exact):
    """The largest error of a column (a parameter) relative to the largest entry of that column."""
    found, exact = np.asarray(found), np.asarray(exact)
    assert found.shape == exact.shape
    found, exact = (a.reshape(-1, a.shape[-1]) for a in (found, exact))
    worst = (np.abs(found - exact).max(0) / np.abs(exact).max(0)).max()
    return np.inf if np.isnan(worst) else worst
