"""Pseudo-arclength continuation of stationary laws in kappa, from a bifurcation of the uniform law through folds."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from .self_consistency import SelfConsistency, Unresolved

# |a_l| at the first point of a branch; smallest and largest arc length of a step; maximum number of steps.
START, SMALLEST, LONGEST, MOST = 2e-3, 1e-9, 0.12, 2000


class Point(NamedTuple):
    """A point (x, sigma) of a branch and its tangent (dx, dsigma); `sigma = log(kappa/kappa_c)`."""

    x: np.ndarray
    sigma: float
    dx: np.ndarray
    dsigma: float


class Path(NamedTuple):
    """A branch: the sigma at which it leaves the uniform law, its points in order, and the indices of the folds among them.

    mode, sign: the branch leaves in the direction of `sign` times the polynomial of degree `mode`.
    trouble: why it ended early ("" if it did not).
    """

    onset: float
    mode: int
    sign: int
    points: list[Point]
    folds: list[int]
    trouble: str

    def lowest(self) -> int:
        """Return the index of the fold with the smallest kappa. (In high dimension at large beta, there are several folds.)"""
        return min(self.folds, key=lambda place: self.points[place].sigma)


def trace(problem: SelfConsistency, mode: int, sign: int, sigma_end: float, longest: float = LONGEST) -> Path:
    """Return the branch that leaves the uniform law at mode l, up to where sigma exceeds `sigma_end` while increasing.

    The bifurcation is at `s_l = 1/rho_l`: kappa_l = beta/w_l (unnormalized), beta w_0/w_l (softmax).
    """
    place = int(np.nonzero(problem.degrees == mode)[0][0])
    start = -math.log(problem.rho[place]), mode, sign
    points: list[Point] = []
    folds: list[int] = []
    try:
        point, trouble = enter(problem, mode, sign * START), ""
        if point is None:
            return Path(*start, [], [], "Newton's method failed at the first point")
        points.append(point)
        length = 2 * START * problem.root[place] / _scale(point.x)
        while not (point.sigma > sigma_end and point.dsigma > 0):
            if len(points) >= MOST:
                return Path(*start, points, folds, f"it did not end within {MOST} steps")
            onward, used = None, length
            while onward is None:
                used, onward = length, _advance(problem, point, length)
                length /= 2
                if onward is None and length < SMALLEST:
                    why = f"continuation failed at kappa/kappa_c = {math.exp(point.sigma):.6g}"
                    return Path(*start, points, folds, why)
            if problem.resolve(onward.x, onward.sigma):
                length = used
                continue
            if onward.dsigma * point.dsigma < 0:
                points.append(between(problem, point, onward, lambda at: at.dsigma))
                folds.append(len(points) - 1)
            points.append(onward)
            point, length = onward, min(used * 1.5, longest)
    except Unresolved as error:
        trouble = str(error)
    return Path(*start, points, folds, trouble)


def _scale(x: np.ndarray) -> float:
    return 0.3 + float(np.linalg.norm(x))


def _tangent(problem: SelfConsistency, x: np.ndarray, sigma: float, row: np.ndarray) -> tuple[np.ndarray, float]:
    _, jacobian, slope = problem.linearize(x, sigma)
    matrix = np.block([[jacobian, slope[:, None]], [row[None, :]]])
    t = np.linalg.solve(matrix, np.r_[np.zeros(len(x)), 1.0])
    t /= math.hypot(float(np.linalg.norm(t[:-1])) / _scale(x), float(t[-1]))
    return t[:-1], float(t[-1])


def _correct(
    problem: SelfConsistency, x: np.ndarray, sigma: float, row: np.ndarray, level: float
) -> tuple[np.ndarray, float] | None:
    """Solve the stationary equation with `row · (x, sigma) = level` by Newton's method; return None if it fails."""
    y, last = np.r_[x, sigma], math.inf
    for _ in range(12):
        residual, jacobian, slope = problem.linearize(y[:-1], float(y[-1]))
        matrix = np.block([[jacobian, slope[:, None]], [row[None, :]]])
        step = np.linalg.solve(matrix, -np.r_[residual, row @ y - level])
        size = float(np.linalg.norm(step))
        if not size < max(last, 1e-9) * 1.5:
            return None
        y, last = y + step, size
        if abs(y[-1] - sigma) > 1.0:
            return None
        if size < 1e-10 * (1 + float(np.linalg.norm(y))):
            return y[:-1], float(y[-1])
    return None


def enter(problem: SelfConsistency, mode: int, amplitude: float) -> Point | None:
    """Return the point of the branch at which `a_l = amplitude`, small and of either sign."""
    place = int(np.nonzero(problem.degrees == mode)[0][0])
    x = np.zeros(len(problem.degrees))
    x[place] = amplitude * problem.root[place]
    row = np.zeros(len(x) + 1)
    row[place] = 1
    found = _correct(problem, x, -math.log(problem.rho[place]), row, float(x[place]))
    return None if found is None else Point(*found, *_tangent(problem, *found, math.copysign(1, amplitude) * row))


def near_onset(problem: SelfConsistency, path: Path, sigma: float) -> list[np.ndarray]:
    """Return the x at sigma between the uniform law and the first point of the branch, if there is one with |a_l| > 1e-5."""

    def ahead(amplitude: float) -> Point:
        found = enter(problem, path.mode, amplitude)
        if found is None:
            raise Unresolved(f"continuation failed near kappa/kappa_c = {math.exp(path.onset):.6g}")
        return found

    ends = START * path.sign * 5e-3, START * path.sign
    if (ahead(ends[0]).sigma <= sigma) == (path.points[0].sigma <= sigma):
        return []
    return [ahead(float(brentq(lambda a: ahead(a).sigma - sigma, *ends, xtol=1e-12))).x]


def _row(point: Point) -> np.ndarray:
    return np.r_[point.dx / _scale(point.x) ** 2, point.dsigma]


def _advance(problem: SelfConsistency, point: Point, length: float) -> Point | None:
    """Return the point at arc length `length` from a point; None if Newton's method fails or the branch turns too much."""
    row = _row(point)
    x, sigma = point.x + length * point.dx, point.sigma + length * point.dsigma
    try:
        found = _correct(problem, x, sigma, row, float(row @ np.r_[x, sigma]))
        if found is None:
            return None
        dx, dsigma = _tangent(problem, *found, row)
    except np.linalg.LinAlgError:
        return None
    moved = np.linalg.norm(found[0] - x) / _scale(point.x)
    cosine = float(row @ np.r_[dx, dsigma]) * _scale(point.x) / _scale(found[0])
    if moved + abs(found[1] - sigma) > 0.3 * length or cosine < 0.9:
        return None
    return Point(*found, dx, dsigma)


def between(problem: SelfConsistency, one: Point, two: Point, zero: Callable[[Point], float]) -> Point:
    """Return the point between two neighbors on the branch where `zero` vanishes; it has opposite signs at the neighbors."""
    length = float(_row(one) @ np.r_[two.x - one.x, two.sigma - one.sigma])

    def ahead(h: float) -> Point:
        found = one if h == 0 else two if h == length else _advance(problem, one, h)
        if found is None:
            raise Unresolved(f"continuation failed near kappa/kappa_c = {math.exp(one.sigma):.6g}")
        return found

    return ahead(float(brentq(lambda h: zero(ahead(h)), 0.0, length, xtol=1e-13 * length, rtol=1e-14)))
