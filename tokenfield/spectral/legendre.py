"""Associated Legendre functions."""

import numpy as np


def legendre(m: int, modes: int, z: np.ndarray) -> np.ndarray:
    """Return the associated Legendre functions of order m and degrees l = m … modes at z, an (l, N) array.

    They are computed by the stable recurrence in l, in the precision of z. Times `cos m p` and `sin m p`, p the longitude, they are
    orthonormal for the uniform probability on the 2-sphere.
    """
    i, number = np.arange(1, m + 1).astype(z.dtype), z.dtype.type
    found = [(1 - z * z) ** (number(m) / 2) * np.sqrt(np.prod((2 * i + 1) / (2 * i)) * (1 + (m > 0)))]
    before = np.zeros_like(z)
    for k in range(m + 1, modes + 1):
        a = np.sqrt(number((2 * k - 1) * (2 * k + 1)) / ((k - m) * (k + m)))
        b = np.sqrt(number((2 * k + 1) * (k + m - 1) * (k - m - 1)) / ((k - m) * (k + m) * max(2 * k - 3, 1)))
        before, now = found[-1], a * z * found[-1] - b * before
        found.append(now)
    return np.stack(found)
