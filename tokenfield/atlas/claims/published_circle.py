"""A published metastable run on the circle, with merge times that carry an error estimate."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

BETA, T1, STEP = 4.0, 400.0, 0.1
START = (0.06219714, 0.21432297, 1.81912262, 2.91107101, -3.09524835)
PLATEAUS = np.array([9, 13, 25]) / 25  # clusters of sizes (2, 2, 1), (2, 3), (5): sum of (size/n)^2
BLUE, ORANGE = "#0072B2", "#D55E00"
MODEL = tkf.Transformer(tkf.Softmax(beta=BETA), norm=tkf.PostLN())


def energy(x: np.ndarray) -> np.ndarray:
    """`Ebar = (1/n^2) sum_ij e^{beta(<x_i,x_j>-1)}` at each time of (times, n, d)."""
    return np.exp(BETA * (x @ np.swapaxes(x, 1, 2) - 1)).mean(axis=(1, 2))


def merge_times(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """When the energy is half-way from one plateau to the next, on a cubic spline."""
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(times, energy(x))
    return np.array([spline.solve(level, extrapolate=False)[0] for level in (PLATEAUS[1:] + PLATEAUS[:-1]) / 2])
