"""Associated Legendre functions."""

import math

import numpy as np


def legendre(m: int, modes: int, z: np.ndarray) -> np.ndarray:
    """`(l, N)`: associated Legendre functions of order m and degrees l = m … modes at z, by the stable recurrence in l.

    Times `cos m p` and `sin m p`, p the longitude, they are orthonormal for the uniform probability on the 2-sphere.
    """
    i = np.arange(1, m + 1)
    found = [(1 - z * z) ** (m / 2) * math.sqrt(float(np.prod((2 * i + 1) / (2 * i))) * (1 + (m > 0)))]
    before = np.zeros_like(z)
    for k in range(m + 1, modes + 1):
        a = math.sqrt((2 * k - 1) * (2 * k + 1) / ((k - m) * (k + m)))
        b = math.sqrt((2 * k + 1) * (k + m - 1) * (k - m - 1) / ((k - m) * (k + m) * max(2 * k - 3, 1)))
        before, now = found[-1], a * z * found[-1] - b * before
        found.append(now)
    return np.stack(found)
