"""Gaussian data under free flows, as ordinary differential equations for mean and covariance (FORMULAS §5)."""

import numpy as np
from scipy.integrate import solve_ivp

from .kernels import score_matrix, value_matrix

HUGE = 1e8


def root(S):
    """Symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


def affine(head, mean, cov):
    """`(c, B Sigma, B mean)` of `Gamma(x) = V(c + B x)`."""
    d, A = len(mean), score_matrix(head, len(mean))
    if head.kernel == "softmax":
        return mean, cov @ A @ cov, cov @ A @ mean
    if head.kernel == "linear":
        B = (cov + np.outer(mean, mean)) @ A
        return 0 * mean, B @ cov, B @ mean
    if head.kernel == "l2":
        scale = np.sqrt(1.0 if head.beta is None else head.beta)
        Q = scale * (np.eye(d) if head.Q is None else head.Q)
        K = scale * (np.eye(d) if head.K is None else head.K)
        inverse = np.linalg.inv(np.eye(d) + 2 * cov @ K.T @ K)
        B = inverse @ cov @ (2 * K.T @ Q)
        return inverse @ mean, B @ cov, B @ mean
    half = root(cov)
    M = half @ A @ half
    factor = half @ (2 * M @ np.linalg.inv(np.eye(d) + root(np.eye(d) + 4 * M.T @ M)))  # B half
    # gamma = alpha + B (x - alpha): the mean moves by V alpha alone
    return mean, factor @ half, 0 * mean


def velocity(heads, outputs, mean, cov, noise):
    """Time derivatives of mean and covariance; noise is 1/kappa."""
    d = len(mean)
    dm, dS = np.zeros(d), np.zeros((d, d))
    for h, head in enumerate(heads):
        V = value_matrix(head, d)
        V = V if outputs is None else outputs[h] @ V
        c, BS, Bm = affine(head, mean, cov)
        dm, dS = dm + V @ (c + Bm), dS + V @ BS
    return dm, dS + dS.T + 2 * noise * np.eye(d)


def run(heads, outputs, mean, cov, t1, noise=0.0):
    """`(kind, time, mean, cov)` at t1 or at the blow-up."""
    d = len(mean)

    def f(t, y):
        dm, dS = velocity(heads, outputs, y[:d], y[d:].reshape(d, d), noise)
        return np.concatenate([dm, dS.ravel()])

    def large(t, y):
        return np.abs(y).max() - HUGE

    large.terminal = True
    with np.errstate(all="ignore"):
        path = solve_ivp(
            f, (0, t1), np.concatenate([mean, cov.ravel()]), method="DOP853", rtol=1e-12, atol=1e-15, events=large
        )
    y, t = path.y[:, -1], path.t[-1]
    if path.status == 0:
        return "end", t1, y[:d], y[d:].reshape(d, d)
    return "blow_up", t + 1.0 / (np.abs(f(t, y)).max() / np.abs(y).max()), y[:d], y[d:].reshape(d, d)
