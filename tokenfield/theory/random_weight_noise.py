"""The spread over seeds after a layer with random weights: mean and covariance of the mean cosine R and of L = r^2.

All tokens are multiplied by the same V, so `2 c <x_i, V y_l> + c^2 <V y_i, V y_l>` has a part W common to all pairs and
to all squared lengths, of variance `(4 c^2 R C + 2 c^4 C^2)/d`. The difference of the two is free of it:

`R+ = 1 - e/(D + W) + drift`,  `L+ = L (D + W)`,  `D = 1 + c^2 B`,  `e = 1 - R + c^2 (B - C)`.

The parts that differ between tokens only shift the mean of a ratio, by the second-order term of its expansion,

`drift = -(2 c^2 (C + R B - 2 R C) + 2 c^4 C (B - C))/(d D^2) + (3/4) N (4 c^2 (B - R C) + 2 c^4 (B^2 - C^2))/(d D^3)`,

`N = D - e`. If outputs are normalized (B = 1), the terms in c^4 are absent, as `|V y_i|` does not matter; instead the
cosine C of outputs has mean `C - C (1-C^2)/(2d)` and, common to all pairs, variance `2 C^2 (1-C)^2/d`. R, L and W are
taken as Gaussian, and averages over each use three Gauss–Hermite points.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

POINTS, POINT_WEIGHTS = (-(3**0.5), 0.0, 3**0.5), (1 / 6, 2 / 3, 1 / 6)
GRID = np.array(list(product(POINTS, repeat=3))).T
WEIGHTS = np.array([a * b * c for a, b, c in product(POINT_WEIGHTS, repeat=3)])


class Spread(NamedTuple):
    """Mean (2,) and covariance (2, 2) of R and L over seeds."""

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def start(cls, rho: float, radius: float, n: int, d: int, noise: bool) -> "Spread":
        """Return the spread of independent random tokens, where R has variance `2 (1-rho)^2/(n (n-1) d)`."""
        variance = 2 * (1 - rho) ** 2 / (n * (n - 1) * d) if noise else 0.0
        return cls(np.array([rho, radius**2]), np.diag([variance, 0.0]))

    def points(self) -> np.ndarray:
        """Return (2, 27) values of R and L."""
        values, vectors = np.linalg.eigh(self.covariance)
        points = self.mean[:, None] + (vectors * np.sqrt(np.maximum(values, 0))) @ GRID[:2]
        return np.stack([np.minimum(points[0], 1.0), np.maximum(points[1], 0.1 * self.mean[1])])

    def after(
        self, c2: np.ndarray, own: np.ndarray, cross: np.ndarray, n: int, d: int, noise: bool, unit: bool, radial: bool
    ) -> "Spread":
        """Return the spread after a layer.

        Args:
            c2: c^2 at the points.
            own, cross: B and C at the points (1 and the cosine of outputs if these are normalized).
            n, d: number of tokens and dimension.
            noise: False for d -> infinity.
            unit: True if outputs are normalized.
            radial: True if lengths grow.
        """
        R, L = self.points()
        D, e = 1 + c2 * own, 1 - R + c2 * (own - cross)
        c4 = 0.0 if unit else c2**2
        all_pairs, all_outputs = R + (1 - R) / n, cross + (own - cross) / n
        variance = np.maximum(4 * c2 * all_pairs * all_outputs + 2 * c4 * all_outputs**2, 0) / d
        drift = -(2 * c2 * (cross + R * own - 2 * R * cross) + 2 * c4 * cross * (own - cross)) / D**2
        drift += 0.75 * (D - e) / D**3 * (4 * c2 * (own - R * cross) + 2 * c4 * (own**2 - cross**2))
        own_noise = 0.0
        if unit:
            drift -= c2 * cross * (1 - cross**2) / (2 * D)
            own_noise = float(np.mean(2 * (c2 * cross * (1 - cross) / D) ** 2)) / d
        length = np.maximum(D + noise * np.sqrt(variance) * GRID[2], 0.1 * D)
        states = np.stack([np.minimum(1 - e / length + noise * drift / d, 1.0), L * length if radial else L])
        mean = states @ WEIGHTS
        offsets = states - mean[:, None]
        return Spread(mean, (offsets * WEIGHTS) @ offsets.T + np.diag([noise * own_noise, 0.0]))
