"""Numbers measured from tokens, by their definitions."""

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog, minimize_scalar


def energy(x, w, A, c):
    """`(1/2c) ∬ e^{<Ax,y>}` in long doubles."""
    x, w = x.astype(np.longdouble), w.astype(np.longdouble)
    return (w @ np.exp((x @ A.T) @ x.T) @ w) / (2 * c)


def cosines(x):
    """(n, n) cosines."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    return u @ u.T


def mean_cosine(x, w):
    """Mean over pairs i ≠ j, weighted by `w_i w_j`."""
    pairs = np.outer(w, w) * (1 - np.eye(len(w)))
    return (pairs * cosines(x)).sum() / pairs.sum()


def effective_rank(x, w, centered):
    """Exponential of the entropy of the normalized singular values."""
    y = (x - w @ x if centered else x) * np.sqrt(w)[:, None]
    s = np.linalg.svd(y, compute_uv=False)
    p = s / s.sum()
    p = p[p > 0]
    return np.exp(-(p * np.log(p)).sum())


def clusters(closeness, limit):
    """Labels: components of `closeness <= limit` that are no wider than that; tokens of wider ones by themselves."""
    n = len(closeness)
    labels = np.arange(n)
    for _ in range(n):
        for i in range(n):
            labels[i] = min(labels[j] for j in range(n) if closeness[i, j] <= limit)
    for label in set(labels):
        members = np.flatnonzero(labels == label)
        if closeness[np.ix_(members, members)].max() > limit:
            labels[members] = members
    return labels


def distances(x, y, metric):
    """(n, m) Euclidean distances or angles."""
    if metric == "euclidean":
        return np.linalg.norm(x[:, None] - y[None], axis=-1)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    v = y / np.linalg.norm(y, axis=1, keepdims=True)
    half = np.minimum(np.linalg.norm(u[:, None] - v[None], axis=-1) / 2, 1)
    return 2 * np.arcsin(half)


def wasserstein(x, a, y, b, p, metric):
    """`W_p` by a linear program, or an assignment for equal weights."""
    cost = distances(x, y, metric) ** p
    if len(x) == len(y) and np.ptp(a) == 0 and np.ptp(b) == 0:
        rows, columns = linear_sum_assignment(cost)
        return cost[rows, columns].mean() ** (1 / p)
    n, m = cost.shape
    marginals = np.zeros((n + m, n * m))
    for i in range(n):
        marginals[i, i * m : (i + 1) * m] = 1
    for j in range(m):
        marginals[n + j, j::m] = 1
    result = linprog(cost.ravel(), A_eq=marginals[:-1], b_eq=np.concatenate([a, b])[:-1], method="highs")
    return max(result.fun, 0.0) ** (1 / p)


def bures(m1, S1, m2, S2):
    """`W_2` of two Gaussians."""

    def root(S):
        values, vectors = np.linalg.eigh(S)
        return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T

    half = root(S1)
    return np.sqrt(max(((m1 - m2) ** 2).sum() + np.trace(S1 + S2 - 2 * root(half @ S2 @ half)), 0.0))


def circle_wasserstein(quantile1, quantile2, p, knots=4000):
    """`W_p` of two laws on the circle from the quantiles of their angles: the best rotation of the ranks."""
    u = (np.arange(knots) + 0.5) / knots

    def cost(shift):
        v = u - shift
        lift = np.floor(v)
        return (np.abs(quantile1(u) - quantile2(v - lift) - 2 * np.pi * lift) ** p).mean()

    grid = np.linspace(-1, 1, 81)
    best = grid[np.argmin([cost(s) for s in grid])]
    found = minimize_scalar(cost, bounds=(best - 0.03, best + 0.03), method="bounded", options={"xatol": 1e-9})
    return found.fun ** (1 / p)


def centers(x, delta, strong):
    """Rényi centers, one by one."""
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    found = []
    for i in range(len(x)):
        others = range(i) if strong else found
        if all(np.arccos(np.clip(u[i] @ u[j], -1, 1)) > delta for j in others):
            found.append(i)
    return found


def leaders(x, A):
    """Tokens that score themselves above all tokens elsewhere."""
    s = (x @ A.T) @ x.T
    return [i for i in range(len(x)) if all(s[i, i] > s[i, j] for j in range(len(x)) if np.abs(x[i] - x[j]).max() > 0)]
