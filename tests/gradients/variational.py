"""Solutions of `y' = f(t, y, p)` with their derivatives by p, from the variational equation `S' = f_y S + f_p`.

The Jacobians of f are complex steps, `f'(z) e = Im f(z + i h e) / h` with h = 1e-30: exact to rounding for an analytic f
that is written without conjugates, absolute values and orthogonal decompositions.
"""

import numpy as np
from scipy.integrate import solve_ivp

H = 1e-30


def jacobian(f, z):
    """`df/dz` (m, k) at a real z (k,). f maps a batch (b, k) to (b, m)."""
    return f(z + 1j * H * np.eye(len(z))).imag.T / H


def one_by_one(f):
    """A function of a batch from a function of one point."""
    return lambda Z: np.array([f(z) for z in Z])


def sensitivity(f, t0, t1, y0, p, dy0=None, rtol=1e-13, atol=1e-15):
    """`y(t1)` (m,) and `dy(t1)/dp` (m, k). f maps `(t, Y (b, m), P (b, k))` to (b, m); y0 has the derivative dy0 (m, k)."""
    y0, p = np.asarray(y0, float), np.asarray(p, float)
    m, k = len(y0), len(p)
    S0 = np.zeros((m, k)) if dy0 is None else np.asarray(dy0, float)

    def rate(t, packed):
        y, S = packed[:m], packed[m:].reshape(m, k)
        z = np.concatenate([y, p])
        J = jacobian(lambda Z: f(t, Z[:, :m], Z[:, m:]), z)
        return np.concatenate([f(t, y[None], p[None])[0].real, (J[:, :m] @ S + J[:, m:]).ravel()])

    packed = np.concatenate([y0, S0.ravel()])
    run = solve_ivp(rate, (t0, t1), packed, method="DOP853", rtol=rtol, atol=atol)
    assert run.success
    return run.y[:m, -1], run.y[m:, -1].reshape(m, k)
