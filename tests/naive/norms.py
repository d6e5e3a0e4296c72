"""Normalization rules: what they read, the flow, the layer; rescaled tokens."""

import math

import numpy as np

from .attention import tangent, unit, units

NORMS = ("none", "post", "pre", "peri", "mix", "ngpt", "sqrt")


def _check(norm_name):
    if norm_name not in NORMS:
        raise ValueError(f"norm_name is {norm_name!r}; it must be one of {NORMS}")


def _at(alpha, t):
    """alpha(t), for a number or a function of t."""
    return float(alpha(t)) if callable(alpha) else float(alpha)


def written(a):
    """N(a) of what a sublayer writes; 0 stays 0, for a token may attend to nothing."""
    return np.array([unit(y) if y.any() else y for y in np.asarray(a, dtype=float)])


def reads(norm_name, t, x, tau=None, alpha=1.0):
    """What the sublayers of the flow read: x, or x/|x| (pre, peri, and mix once t > tau)."""
    _check(norm_name)
    if norm_name == "mix":
        norm_name = "post" if t <= tau else "pre"
    if norm_name in ("pre", "peri"):
        return units(x)
    return np.array(x, dtype=float)


def velocity(norm_name, t, x, drifts, tau=None, alpha=1.0):
    """dx/dt in R^d, from one drift A^(k) a sublayer, each evaluated at `reads(norm_name, t, x)`.

    none, pre: sum_k A^(k).   post: P_x sum_k A^(k).   sqrt: P_x sum_k A^(k) / sqrt(t+1).
    peri: sum_k N(A^(k)).     ngpt: alpha(t) P_x sum_k N(A^(k)).     mix: post for t <= tau, then pre.
    """
    _check(norm_name)
    if norm_name == "mix":
        norm_name = "post" if t <= tau else "pre"
    x = np.asarray(x, dtype=float)
    v = np.zeros_like(x)
    for i in range(len(x)):
        for drift in drifts:
            a = np.asarray(drift, dtype=float)[i]
            if norm_name in ("none", "pre"):
                v[i] += a
            elif norm_name == "post":
                v[i] += tangent(x[i], a)
            elif norm_name == "sqrt":
                v[i] += tangent(x[i], a) / math.sqrt(t + 1.0)
            elif norm_name == "peri":
                v[i] += written([a])[0]
            elif norm_name == "ngpt":
                v[i] += _at(alpha, t) * tangent(x[i], written([a])[0])
    return v


def layer(norm_name, t, x, sublayers, h, tau=None, alpha=1.0):
    """One discrete layer of step h from time t. Sublayers act in turn, each with its own norm:

    none: x + h A(x).        post: N(x + h A(x)).              sqrt: N(x + h A(x) / sqrt(t+1)).
    pre:  x + h A(Nx).       peri: x + h N(A(Nx)).             ngpt: N(x + h alpha(t) N(A(x))).
    mix:  post while t < tau, then pre.
    """
    _check(norm_name)
    if norm_name == "mix":
        norm_name = "post" if t < tau else "pre"
    x = np.array(x, dtype=float)
    for sublayer in sublayers:
        if norm_name == "none":
            x = x + h * np.asarray(sublayer(x))
        elif norm_name == "post":
            x = units(x + h * np.asarray(sublayer(x)))
        elif norm_name == "sqrt":
            x = units(x + h * np.asarray(sublayer(x)) / math.sqrt(t + 1.0))
        elif norm_name == "pre":
            x = x + h * np.asarray(sublayer(units(x)))
        elif norm_name == "peri":
            x = x + h * written(sublayer(units(x)))
        elif norm_name == "ngpt":
            x = units(x + h * _at(alpha, t) * written(sublayer(x)))
    return x


def rescaled(t, z, w, P_at, V):
    """z_i' = sum_j P_ij V (z_j - z_i), P = P_at(x, w) at x = e^{tV} z; the rows of P must sum to 1."""
    from scipy.linalg import expm

    z, V = np.asarray(z, dtype=float), np.asarray(V, dtype=float)
    n = len(z)
    forward = expm(t * V)
    P = P_at(np.array([forward @ y for y in z]), w)
    v = np.zeros_like(z)
    for i in range(n):
        for j in range(n):
            v[i] += P[i, j] * (V @ (z[j] - z[i]))
    return v


def rescaled_general(t, z, w, gamma_at, V):
    """z_i' = e^{-tV} Gamma_i - V z_i, Gamma = gamma_at(x, w) at x = e^{tV} z; for any kernel."""
    from scipy.linalg import expm

    z, V = np.asarray(z, dtype=float), np.asarray(V, dtype=float)
    forward, back = expm(t * V), expm(-t * V)
    gamma = gamma_at(np.array([forward @ y for y in z]), w)
    return np.array([back @ gamma[i] - V @ z[i] for i in range(len(z))])
