"""Theory by mpmath: Bessel functions, quadratures and roots at 30 digits (FORMULAS §7 to §10)."""

import mpmath as mp
import numpy as np
from scipy.special import eval_gegenbauer, roots_gegenbauer

mp.mp.dps = 30


def multiplier(k, beta, d):
    """Funk–Hecke multiplier `w_k` of `e^{beta<x,y>}` by its series of positive terms, or its Bessel function."""
    b, half = mp.mpf(beta), mp.mpf(d) / 2
    if b == 0:
        return mp.mpf(1 if k == 0 else 0)
    return mp.gamma(half) * (2 / b) ** (half - 1) * mp.besseli(k + half - 1, b)


def growth_rate(k, beta, d, attention):
    """Growth of mode k of a perturbation of the uniform law."""
    w = multiplier(k, beta, d)
    return k * (k + d - 2) * w / (mp.mpf(beta) * (multiplier(0, beta, d) if attention == "softmax" else 1))


def critical_kappa(beta, d, attention):
    """`beta/w_1`, or `beta w_0/w_1` for softmax."""
    factor = multiplier(0, beta, d) if attention == "softmax" else 1
    return mp.mpf(beta) * factor / multiplier(1, beta, d)


def beta_star(d):
    """Root of `I_{d/2+1}/I_{d/2} = 1/d`."""
    h = mp.mpf(d) / 2
    gap = lambda b: mp.besseli(h + 1, b) / mp.besseli(h, b) - 1 / mp.mpf(d)  # noqa: E731
    return mp.findroot(gap, (mp.mpf(1) / 10, mp.mpf(4 * d)), solver="ridder")


def log_pair_merge_time(rho0, rho1, beta, masses, attention):
    """Logarithm of the time of two clusters between two cosines: Gauss–Legendre in pieces of the kernel's width."""
    mi, mj = masses
    edges = [rho0]
    while edges[-1] < rho1:
        edges.append(min(rho1, edges[-1] + min(4 / (4 + beta), (1 - edges[-1] ** 2) / 5)))
    edges = np.array(edges)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    rho = (edges[:-1, None] + edges[1:, None]) / 2 + nodes * np.diff(edges)[:, None] / 2
    if attention == "softmax":  # 1/F is about E, which overflows: E = e^b
        b = beta * (1 - rho)
        log_speed = -b + np.log(mj / (mi + mj * np.exp(-b)) + mi / (mj + mi * np.exp(-b)))
    else:
        log_speed = np.log(mi + mj) + beta * rho
    logs = -np.log1p(-(rho**2)) - log_speed
    return float(logs.max() + np.log((np.exp(logs - logs.max()) * weights * np.diff(edges)[:, None] / 2).sum()))


def contraction(rho, n, beta, step=None):
    """Cosine of two outputs of `(x +) Att(x)` from n tokens at equal angles, from Gram sums."""
    rho, n, beta = mp.mpf(rho), mp.mpf(n), mp.mpf(beta)
    own = 1 / (1 + (n - 1) * mp.exp(-beta * (1 - rho)))
    other = mp.exp(-beta * (1 - rho)) * own
    u = own - other + (0 if step is None else 1 / mp.mpf(step))  # output u x_i + other sum_k x_k
    S = 1 + (n - 1) * rho
    inner = u * u * rho + 2 * u * other * S + other**2 * n * S
    size = u * u + 2 * u * other * S + other**2 * n * S
    return inner / size


def causal_contraction(rho, i, j, beta_i, beta_j):
    """Cosine of outputs i < j of a causal layer, by sums over all tokens."""
    rho = mp.mpf(rho)

    def row(k, beta):
        weights = [mp.exp(-mp.mpf(beta) * (1 - rho))] * (k - 1) + [mp.mpf(1)]
        return [a / mp.fsum(weights) for a in weights] + [mp.mpf(0)] * (j - k)

    p, q = row(i, beta_i), row(j, beta_j)

    def inner(a, b):
        same = mp.fsum(s * t for s, t in zip(a, b, strict=True))
        return rho * mp.fsum(a) * mp.fsum(b) + (1 - rho) * same

    return inner(p, q) / mp.sqrt(inner(p, p) * inner(q, q))


def kde_modes_circle(beta):
    """`sqrt(l_4/l_2)` from the spectral moments `sum_k k^m I_k(beta)^2`."""
    powers = [mp.besseli(k, beta) ** 2 for k in range(int(40 + 4 * beta))]
    second = mp.fsum(k**2 * p for k, p in enumerate(powers))
    return mp.sqrt(mp.fsum(k**4 * p for k, p in enumerate(powers)) / second)


def legendre(coefficients, beta, kappa, d, attention):
    """The moments `∫ P_l` of the law that a stationary law with these moments must equal, and its free energy.

    `∫ e^{beta<x,y>} dmu(y) = sum_l dim_l w_l c_l P_l(t)`, with P_l(1) = 1 and dim_l the number of harmonics.
    """
    count = 400
    alpha = d / 2 - 1
    if d == 2:
        angle = np.pi * (np.arange(count) + 0.5) / count
        t, q = np.cos(angle), np.full(count, 1 / count)
    else:
        t, q = roots_gegenbauer(count, alpha)
        q = q / q.sum()
    size = len(coefficients)

    def P(k):
        return np.cos(k * np.arccos(t)) if d == 2 else eval_gegenbauer(k, alpha, t) / eval_gegenbauer(k, alpha, 1.0)

    def dim(k):
        return 1.0 if k == 0 else 2.0 if d == 2 else (2 * k + d - 2) / (d - 2) * eval_gegenbauer(k, alpha, 1.0)

    w = [float(multiplier(k, beta, d)) for k in range(size)]
    Z = sum(dim(k) * w[k] * coefficients[k] * P(k) for k in range(size))
    logs = kappa / beta * (np.log(Z) if attention == "softmax" else Z)
    p = np.exp(logs - logs.max())
    p /= q @ p
    moments = np.array([q @ (P(k) * p) for k in range(size)])
    energy = (q @ (p * np.log(p))) / kappa - (q @ (p * Z)) / (2 * beta)
    uniform = -w[0] / (2 * beta)
    return moments, energy - uniform
