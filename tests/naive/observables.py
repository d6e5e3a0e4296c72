"""Energy, order and clusters."""

import math

import numpy as np

from .attention import units


def energy(x, w, beta):
    """E_beta = (1 / 2 beta) sum_ij w_i w_j e^{beta <x_i, x_j>}."""
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            total += w[i] * w[j] * math.exp(beta * float(x[i] @ x[j]))
    return total / (2.0 * beta)


def energy_without_constant(x, w, beta):
    """E_beta - 1/(2 beta) = (1/2) sum_ij w_i w_j expm1(beta <x_i, x_j>) / beta, finite at beta = 0 too."""
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            a = float(x[i] @ x[j])
            total += w[i] * w[j] * (a if beta == 0 else math.expm1(beta * a) / beta)
    return total / 2.0


def normalized_energy(x, w, beta):
    """Ebar = sum_ij w_i w_j e^{beta (<x_i, x_j> - 1)}."""
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            total += w[i] * w[j] * math.exp(beta * (float(x[i] @ x[j]) - 1.0))
    return total


def order_parameter(x, w):
    """|sum_i w_i x_i|."""
    mean = np.zeros(np.asarray(x).shape[1])
    for i in range(len(x)):
        mean += w[i] * x[i]
    return math.sqrt(float(mean @ mean))


def clusters(x, tol, metric="sphere"):
    """Labels 0, 1, ... (by first appearance) of the connected components of "closer than the tolerance".

    metric "sphere": cosine >= 1 - tol, that is |N x_i - N x_j| <= sqrt(2 tol). metric "euclidean":
    |x_i - x_j| <= tol. A component whose diameter exceeds the tolerance is split into single tokens.
    """
    if metric == "sphere":
        x, reach = units(x), math.sqrt(2.0 * tol)
    elif metric == "euclidean":
        x, reach = np.asarray(x, dtype=float), tol
    else:
        raise ValueError(f"metric is {metric!r}; it must be 'sphere' or 'euclidean'")
    n = len(x)

    def distance(i, j):
        gap = x[i] - x[j]
        return math.sqrt(float(gap @ gap))

    parent = list(range(n))

    def root(i):
        while parent[i] != i:
            i = parent[i]
        return i

    for i in range(n):
        for j in range(i):
            if distance(i, j) <= reach:
                parent[root(i)] = root(j)

    components = {}
    for i in range(n):
        components.setdefault(root(i), []).append(i)
    groups = []
    for members in components.values():
        diameter = max(distance(i, j) for i in members for j in members)
        groups += [members] if diameter <= reach else [[i] for i in members]

    labels = np.full(n, -1)
    for label, members in enumerate(sorted(groups)):
        labels[members] = label
    return labels
