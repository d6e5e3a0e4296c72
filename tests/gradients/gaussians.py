"""Gaussian data under free flows (FORMULAS §5): moments with their derivatives by every parameter, by complex steps.

A vector of parameters holds, one after the other: the mean, a matrix S with `Sigma_0 = (S + S^T)/2`, then what the kernel
needs: `A, V`; `Q, K, V`; `A_1, V_1, A_2, V_2`. With noise 1/kappa, kappa comes last.
"""

import numpy as np
import scipy.linalg

from .variational import one_by_one, sensitivity

MATRICES = {"softmax": 2, "sinkhorn": 2, "linear": 2, "l2": 3, "multi_head": 4}


def split(p, d, count):
    """`(mean, Sigma_0, [matrices], the rest)`."""
    mean, S = p[:d], p[d : d + d * d].reshape(d, d)
    used = d + d * d
    matrices = [p[used + k * d * d : used + (k + 1) * d * d].reshape(d, d) for k in range(count)]
    return mean, (S + S.T) / 2, matrices, p[used + count * d * d :]


def scaled_coupling(G):
    """C with `C^2 + C = G`: a real square root, then Newton's method, which complex numbers can follow."""
    d = len(G)
    C = ((scipy.linalg.sqrtm(np.eye(d) + 4 * G.real) - np.eye(d)) / 2).astype(G.dtype)
    for _ in range(3):
        left = np.kron(C + np.eye(d), np.eye(d)) + np.kron(np.eye(d), C.T)
        C = C - np.linalg.solve(left, (C @ C + C - G).ravel()).reshape(d, d)
    return C


def affine(kernel, matrices, mean, cov):
    """`(V, c, B)` of each head: `Gamma(x) = sum V (c + B x)`."""
    eye = np.eye(len(mean))
    if kernel == "l2":
        Q, K, V = matrices
        inverse = np.linalg.inv(eye + 2 * cov @ K.T @ K)
        return [(V, inverse @ mean, inverse @ cov @ (2 * K.T @ Q))]
    if kernel == "multi_head":
        return [(V, mean, cov @ A) for A, V in (matrices[:2], matrices[2:])]
    A, V = matrices
    if kernel == "softmax":
        return [(V, mean, cov @ A)]
    if kernel == "linear":
        return [(V, 0 * mean, (cov + np.outer(mean, mean)) @ A)]
    C = scaled_coupling(cov @ A.T @ cov @ A)
    B = np.linalg.solve(A.T, np.linalg.solve(cov, C))
    return [(V, mean - B @ mean, B)]


def run(kernel, p, d, t1, noise=False, rtol=1e-13):
    """`(mean, Sigma)` at t1 as one vector (d + d^2,), and its derivatives (d + d^2, len(p))."""
    p, count = np.asarray(p, float), MATRICES[kernel]

    def rate(z):
        mean, cov = z[:d], z[d : d + d * d].reshape(d, d)
        _, _, matrices, rest = split(z[d + d * d :], d, count)
        moved = [(V @ (c + B @ mean), V @ B @ cov) for V, c, B in affine(kernel, matrices, mean, cov)]
        half = sum(term for _, term in moved)
        gain = 2 / rest[0] * np.eye(d) if noise else 0
        return np.concatenate([sum(term for term, _ in moved), (half + half.T + gain).ravel()])

    f = lambda t, Y, P: one_by_one(rate)(np.concatenate([Y, P], 1))  # noqa: E731
    start = lambda q: np.concatenate([split(q, d, count)[0], split(q, d, count)[1].ravel()])  # noqa: E731
    slope = np.array([start(e) for e in np.eye(len(p))]).T  # linear in p
    return sensitivity(f, 0.0, t1, start(p), p, slope, rtol)


def closed_form(mean, cov, A, v, t):
    """`Sigma(t) = (Sigma_0^{-1} - t v (A + A^T))^{-1}` for V = v I, and functions `dSigma` of directions."""
    cov = np.asarray(cov, float)
    end = np.linalg.inv(np.linalg.inv(cov) - t * v * (A + A.T))
    back = np.linalg.inv(cov)
    by_A = lambda dA: t * v * end @ (dA + dA.T) @ end  # noqa: E731
    by_v = t * end @ (A + A.T) @ end
    by_cov = lambda dS: end @ back @ dS @ back @ end  # noqa: E731
    return end, by_A, by_v, by_cov
