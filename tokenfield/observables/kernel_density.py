"""All maxima of a kernel density on the line or on the circle."""

import math
from typing import NamedTuple

import numpy as np

from .._check import as_float, one_of, positive
from .._memory import refuse_large
from .._shown import shown
from ..spaces import Sphere
from ..states import Tokens

ORDER = 12  # order of the expansion about the midpoint of a cell, whose width is 1/4 of the kernel's: exact to rounding
WIDTHS = 9.0  # at this many widths, the kernel is 1e-18 of its maximum
ROOT_STEPS = 50


def kde_modes(state, beta: float, geometry: str = "auto") -> np.ndarray:
    """Return the maxima of `sum_j w_j e^{-beta(x-x_j)^2/2}` on the line, or `sum_j w_j e^{beta cos(theta-theta_j)}` (FORMULAS §8).

    The sum is expanded about the midpoints of cells whose width is 1/4 of the kernel's, so its derivatives at all midpoints
    cost O(n + cells). Every sign change of the slope is a root. Where the slope may touch 0 between two midpoints, its extremum
    is located and checked. Roots are then refined to rounding.

    Args:
        state: Tokens on the line (d = 1) or the circle (d = 2, length 1), or a vector of points or angles.
        beta: precision (inverse squared width) of the kernel.
        geometry: "line" or "circle"; "auto" chooses by the tokens, and is the line for a vector.

    Returns:
        The positions or angles (in [0, 2 pi)) of the modes, in increasing order; the length is the number of modes.

    Example:
        >>> from tokenfield.observables.kernel_density import kde_modes
        >>> len(kde_modes([0.0, 1.0, 1.2, 5.0], beta=10.0))
        3
    """
    beta = positive("beta", beta)
    points, weights, circle = _read(state, geometry)
    points, weights = points[weights > 0], weights[weights > 0]
    if circle:
        return np.sort(np.mod(_modes(_on_circle(points, weights, beta)), 2 * np.pi))
    order = np.argsort(points)
    points, weights = points[order], weights[order]
    cuts = np.flatnonzero(np.diff(points) > 2 * WIDTHS * beta**-0.5) + 1  # points farther apart do not interact
    first, last = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(points)]])
    found = [points[first[last - first == 1]]]
    for a, b in zip(first, last, strict=True):
        if b - a > 1:
            found.append(_modes(_on_line(points[a:b], weights[a:b], beta)))
    return np.sort(np.concatenate(found))


class _Cells(NamedTuple):
    """Points sorted into cells of width `width`, the i-th around `start + i width`, with their moments."""

    start: float
    width: float
    moments: np.ndarray  # (ORDER + 1, cells): sum_j w_j (-u_j)^m / m!, u_j measured from the midpoint of the cell
    window: int  # cells farther away are ignored
    beta: float
    circle: bool

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return f' and f'' at the midpoints of all cells, by convolution."""
        cells = self.moments.shape[1]
        if self.circle and 2 * self.window + 1 >= cells:  # the kernel reaches around the whole circle
            offsets, padded = np.arange(cells), np.concatenate([self.moments[:, 1:], self.moments], axis=1)
        else:
            offsets = np.arange(-self.window, self.window + 1)
            around = ((0, 0), (self.window, self.window))
            padded = np.pad(self.moments, around, mode="wrap") if self.circle else np.pad(self.moments, around)
        kernel = _derivatives(offsets * self.width, self.beta, self.circle, ORDER + 2)
        slope, bend = np.zeros(cells), np.zeros(cells)
        for m in range(ORDER + 1):
            slope += np.convolve(padded[m], kernel[m + 1], "valid")
            bend += np.convolve(padded[m], kernel[m + 2], "valid")
        return slope, bend

    def derivative(self, x: np.ndarray, *orders: int) -> list[np.ndarray]:
        """Return the derivatives of f of the given orders, at any points x (m,)."""
        cells = self.moments.shape[1]
        middle = np.round((x - self.start) / self.width).astype(int)[:, None]
        if self.circle and 2 * self.window + 1 >= cells:
            index = middle + np.arange(cells) - cells // 2
        else:
            index = middle + np.arange(-self.window, self.window + 1)
        u = x[:, None] - self.start - self.width * index
        inside = self.circle | ((index >= 0) & (index < cells))
        moments = np.where(inside, self.moments[:, index % cells if self.circle else np.clip(index, 0, cells - 1)], 0)
        psi = _derivatives(u, self.beta, self.circle, ORDER + max(orders))
        return [np.einsum("mij,mij->i", moments, psi[r : r + ORDER + 1]) for r in orders]


def _read(state, geometry: str) -> tuple[np.ndarray, np.ndarray, bool]:
    one_of("geometry", geometry, ("auto", "line", "circle"))
    if not isinstance(state, Tokens):
        points = np.asarray(as_float("state", state, 1), float)
        if not len(points):
            raise ValueError("state must hold at least one point, got none")
        return points, np.full(len(points), 1 / len(points)), geometry == "circle"
    x, weights, on_sphere = np.asarray(state.x), np.asarray(state.weights), isinstance(state.space, Sphere)
    if state.d == 1 and geometry != "circle":
        return x[:, 0], weights, False
    if state.d == 2 and geometry != "line" and on_sphere:
        return np.arctan2(x[:, 1], x[:, 0]), weights, True
    kind = "of length 1" if on_sphere else "not of length 1"
    raise ValueError(
        f"state must be tokens on the line (d = 1) or on the unit circle (d = 2), got tokens {kind} in R^{state.d} "
        f"and geometry={shown(geometry)}"
    )


def _on_line(points: np.ndarray, weights: np.ndarray, beta: float) -> _Cells:
    width = beta**-0.5 / 4
    start = points[0] - width
    cells = math.ceil((points[-1] - start) / width) + 2
    refuse_large("beta", ORDER + 1, cells)
    index = np.round((points - start) / width).astype(int)
    moments = _moments(points - start - width * index, weights, index, cells)
    return _Cells(start, width, moments, math.ceil(4 * WIDTHS) + 1, beta, False)


def _on_circle(angles: np.ndarray, weights: np.ndarray, beta: float) -> _Cells:
    cells = math.ceil(8 * np.pi * max(beta, 1.0) ** 0.5)
    refuse_large("beta", ORDER + 1, cells)
    width = 2 * np.pi / cells
    index = np.round(angles / width).astype(int)
    moments = _moments(angles - width * index, weights, index % cells, cells)
    # the kernel is e^{-2 beta sin^2(u/2)}: the window ends where that is negligible
    far = 2 * math.asin(min(1.0, WIDTHS / 2 / beta**0.5))
    return _Cells(0.0, width, moments, math.ceil(far / width) + 1, beta, True)


def _moments(u: np.ndarray, weights: np.ndarray, index: np.ndarray, cells: int) -> np.ndarray:
    terms, rows = weights, []
    for m in range(ORDER + 1):
        rows.append(np.bincount(index, terms, cells))
        terms = terms * -u / (m + 1)
    return np.array(rows)


def _derivatives(u: np.ndarray, beta: float, circle: bool, order: int) -> np.ndarray:
    """Return psi, psi', … psi^(order) at u by Leibniz's rule, from `psi' = -beta s psi` with s = u or sin u."""
    s = [u, np.ones_like(u)]
    psi = [np.exp(-beta / 2 * u * u)]
    if circle:
        sin, cos = np.sin(u), np.cos(u)
        s = [sin, cos, -sin, -cos]
        psi = [np.exp(-2 * beta * np.sin(u / 2) ** 2)]
    for m in range(order):
        terms = range(m + 1) if circle else range(min(m, 1) + 1)
        psi.append(-beta * sum(math.comb(m, j) * s[j % 4] * psi[m - j] for j in terms))
    return np.array(psi)


def _modes(cells: _Cells) -> np.ndarray:
    """Return all roots of f' where it changes from positive to negative."""
    slope, bend = cells.slopes()
    if cells.circle:  # wrap around: a root may lie between the last cell and the first
        slope, bend = np.tile(slope, 2), np.tile(bend, 2)
    x = cells.start + cells.width * np.arange(len(slope))
    signs = np.sign(slope)
    used = np.flatnonzero(signs)  # far from all points f' is 0 to rounding, so it has no sign change there
    left, right = used[:-1], used[1:]
    change = (signs[left] > 0) & (signs[right] < 0)
    if cells.circle:
        change &= left < len(slope) // 2
    low, high = [x[left[change]]], [x[right[change]]]

    # |f'| may touch 0 between two midpoints: where the cubic through them comes close, check its extremum.
    a, b = slope[:-1], slope[1:]
    toward = (a * b > 0) & (a * bend[:-1] < 0) & (b * bend[1:] > 0)
    size = cells.width * np.maximum(np.abs(bend[:-1]), np.abs(bend[1:]))
    toward &= np.minimum(np.abs(a), np.abs(b)) < size
    if cells.circle:
        toward[len(slope) // 2 :] = False
    if toward.any():
        i = np.flatnonzero(toward)
        sign = np.sign(a[i])
        dip = _root(lambda at: [sign * value for value in cells.derivative(at, 2, 3)], x[i + 1], x[i])
        through = sign * cells.derivative(dip, 1)[0] < 0
        up = through & (sign > 0)  # positive, negative, positive: the mode comes first
        down = through & (sign < 0)
        low += [x[i[up]], dip[down]]
        high += [dip[up], x[i[down] + 1]]
    return _root(lambda at: cells.derivative(at, 1, 2), np.concatenate(low), np.concatenate(high))


def _root(f, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """Return a root of f between each `plus`, where f > 0, and `minus`, where f < 0, by Newton's method with bisection.

    `f(x)` returns the values and the derivatives.
    """
    x = (plus + minus) / 2
    for _ in range(ROOT_STEPS if len(x) else 0):
        value, slope = f(x)
        plus, minus = np.where(value > 0, x, plus), np.where(value > 0, minus, x)
        newton = x - value / np.where(slope == 0, 1.0, slope)
        inside = (newton - plus) * (newton - minus) <= 0
        moved = np.where(inside & (slope != 0), newton, (plus + minus) / 2)
        done = np.abs(moved - x).max() <= 4e-16 * np.abs(x).max()
        x = moved
        if done:
            break
    return x
