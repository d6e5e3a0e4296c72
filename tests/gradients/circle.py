"""A density on the circle, symmetric about 0, under noisy USA (FORMULAS §10) by its cosine moments.

`p = (1 + 2 sum_k c_k cos k t)/(2 pi)` moves by `c_k' = (k/beta) sum_j j I_j(beta) c_j (c_{|k-j|} - c_{k+j}) - (k^2/kappa) c_k`;
at beta = 0 only j = 1 is left, with `I_1(beta)/beta = 1/2`. Parameters are `r_0, beta, 1/kappa`; the start is the Poisson
kernel, `c_k = r_0^k`.
"""

import numpy as np
from scipy.special import iv, ivp

from .variational import sensitivity

MODES, GRID = 24, 256


def forces(beta):
    """`j I_j(beta)/beta` (b, modes), with the derivative by beta in the imaginary part."""
    j, b = np.arange(1, MODES + 1), beta[0].real
    assert (beta.real == b).all()
    if b == 0:
        assert not beta.imag.any()
        return np.broadcast_to(np.where(j == 1, 0.5, 0.0), (len(beta), MODES))
    value, slope = iv(j, b) / b, ivp(j, b) / b - iv(j, b) / b**2
    return j * (value + 1j * beta.imag[:, None] * slope)


def rate(t, C, P):
    k = np.arange(1, MODES + 1)
    full = np.concatenate([np.ones((len(C), 1)), C, np.zeros((len(C), MODES))], 1)  # c_0 = 1, and 0 beyond the last
    F = forces(P[:, 1]) * C
    pull = (F[:, None] * (full[:, abs(k[:, None] - k)] - full[:, k[:, None] + k])).sum(-1)
    return k * pull - k**2 * P[:, 2:] * C


def run(r0, beta, noise, t1):
    """Moments at t1 and their derivatives (modes, 3) by r_0, beta and 1/kappa (beta > 0, or its column means nothing)."""
    k = np.arange(1, MODES + 1)
    slope = np.zeros((MODES, 3))
    slope[:, 0] = k * r0 ** (k - 1)
    f = rate if beta else (lambda t, C, P: rate(t, C, P * [1, 0, 1]))
    return sensitivity(f, 0.0, t1, r0**k, [r0, beta, noise], slope, rtol=1e-11, atol=1e-13)


def free_energy(c, beta, noise, xp=np):
    """`F = (1/kappa) ∫ p log p - ½ ∬ W`, with respect to the uniform measure, `W = (e^{beta<x,y>} - 1)/beta`.

    c has the moments from 1 on; beta = 0 means `W = <x,y>`.
    """
    t, k = 2 * np.pi * np.arange(GRID) / GRID, np.arange(1, len(c) + 1)
    p = 1 + 2 * np.cos(np.outer(t, k)) @ c
    pairs = (iv(0, beta) - 1) / beta + 2 * (iv(k, beta) / beta) @ c**2 if beta else c[0] ** 2
    return noise * (p * xp.log(p)).mean() - pairs / 2
