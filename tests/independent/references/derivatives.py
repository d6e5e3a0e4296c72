"""Jacobians by an imaginary step: exact to rounding for the analytic references of kernels and norms."""

import numpy as np

STEP = 1e-30


def jacobian(f, x):
    """(outputs, n d) derivative of a map of tokens."""
    x = np.asarray(x, complex)
    columns = []
    for index in range(x.size):
        y = x.ravel().copy()
        y[index] += 1j * STEP
        columns.append(np.asarray(f(y.reshape(x.shape))).imag.ravel() / STEP)
    return np.stack(columns, 1)


def singular_values(f, x, w=None):
    """Singular values of the derivative in the norm `|X|^2 = n sum_i w_i |x_i|^2`."""
    n, d = x.shape
    J = jacobian(f, x)
    scale = np.ones(n) if w is None else np.sqrt(n * np.asarray(w))
    rows = np.repeat(scale, len(J) // n)
    return np.linalg.svd(rows[:, None] * J / np.repeat(scale, d)[None], compute_uv=False)
