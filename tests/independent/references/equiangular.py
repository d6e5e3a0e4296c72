"""Tokens at equal angles (FORMULAS §7): the reduced equations, and tokens with such a Gram matrix."""

import numpy as np
from scipy.integrate import solve_ivp


def points(rho, n, radius=1.0):
    """(n, n) tokens of one length with all cosines rho."""
    values, vectors = np.linalg.eigh((1 - rho) * np.eye(n) + rho * np.ones((n, n)))
    return radius * vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


def coefficients(kernel, beta, n, rho):
    """`a, c` of `A_j = a theta_j + c sum_{k != j} theta_k`."""
    if kernel == "softmax":
        own = 1 / (1 + (n - 1) * np.exp(-beta * (1 - rho)))
        return own, (1 - own) / (n - 1)
    if kernel == "l2":
        return coefficients("softmax", 2 * beta, n, rho)
    phi = {
        "unnormalized": np.exp,
        "linear": lambda s: s,
        "relu": lambda s: max(s, 0.0),
        "sigmoid": lambda s: 1 / (1 + np.exp(-s)),
    }[kernel]
    return phi(beta) / n, phi(beta * rho) / n


def rates(case, kernel, beta, n, rho, r, t, v=1.0):
    """`rho', r'` under the norm of a case."""
    a, c = (v * z for z in coefficients(kernel, beta, n, rho))
    inner = a + (n - 1) * c * rho
    size = np.sqrt(max(a * a + 2 * a * c * (n - 1) * rho + c * c * (n - 1) * (1 + (n - 2) * rho), 0.0))
    free = case.norm == "pre" or (case.norm == "mix" and t > case.tau)
    s = r if free else r * size if case.norm == "peri" else size / case.alpha if case.norm == "ngpt" else 1.0
    s = np.sqrt(t + 1) if case.norm == "sqrt" else s
    growth = inner if free else inner / size if case.norm == "peri" else 0.0
    return 2 / s * c * (1 - rho) * (1 + (n - 1) * rho), growth


def run(case, kernel, beta, n, rho, r, t1, v=1.0):
    """`(rho, r)` at t1, in the variable `log(1 - rho)`; None if a length vanishes."""

    def f(t, y):
        drho, dr = rates(case, kernel, beta, n, -np.expm1(y[0]), y[1], t, v)
        return [-drho * np.exp(-y[0]), dr]

    def short(t, y):
        return y[1] - 1e-6

    short.terminal = True
    y, start = np.array([np.log1p(-rho), r]), 0.0
    for end in [case.tau, t1] if case.norm == "mix" and case.tau < t1 else [t1]:
        begin = start if start == 0 else np.nextafter(start, np.inf)
        path = solve_ivp(f, (begin, end), y, method="DOP853", rtol=1e-12, atol=1e-13, events=short)
        if path.status == 1:
            return "vanished", path.t[-1] + 1e-6 / abs(f(path.t[-1], path.y[:, -1])[1]), None, None
        y, start = path.y[:, -1], end
    return "end", t1, -np.expm1(y[0]), y[1]
