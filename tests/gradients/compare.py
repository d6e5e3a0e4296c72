"""Compare derivatives with references: both modes, relative errors."""

import jax
import jax.numpy as jnp
import numpy as np

TIGHT = {"rtol": 1e-11, "atol": 1e-13, "max_steps": 16384}
"""Options of runs whose derivatives have ten digits: the error of a derivative is like that of the run, not below it."""
SHORT = TIGHT | {"method": "dopri8", "max_steps": 64}
"""The same for runs of few steps, all of which are stored for reverse mode: their programs compile in half the time."""


def in_both_modes(f):
    """`(p, *more) -> (f(p, *more), df/dp)` as in `jacobians`, compiled once for all values."""
    twice = lambda p, *more: (f(p, *more),) * 2  # noqa: E731
    forward, reverse = (jax.jit(mode(twice, has_aux=True)) for mode in (jax.jacfwd, jax.jacrev))

    def both(p, *more):
        p, *more = (jnp.asarray(number, float) for number in (p, *more))
        slopes, value = forward(p, *more)
        slopes_again, again = reverse(p, *more)
        np.testing.assert_allclose(again, value, rtol=1e-9, atol=1e-12)
        return np.asarray(value), {"forward": np.asarray(slopes), "reverse": np.asarray(slopes_again)}

    return both


def jacobians(f, p):
    """`f(p)`, and `df/dp` as `{mode: array (..., len(p))}` in forward and in reverse mode: one compiled program each."""
    return in_both_modes(f)(p)


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
