"""Branches of stationary laws of noisy tokens: the whole curve in kappa, its fold, and the first-order transition."""

import math
import warnings
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._check import count, positive
from .._shown import shown
from .continuation import Path, between, trace
from .linearized import growth
from .names import MOST_DIMENSION, kernel_name
from .noise import critical_kappa, transition
from .self_consistency import SelfConsistency
from .stationary import branches, is_stable


class Branch(NamedTuple):
    """Stationary laws along a branch, in order, starting at the uniform law. Arrays have one entry per law.

    stable: 1 if stable, 0 if unstable, NaN if the growth rate is 0 within rounding (as at a fold).
    complete: False if continuation ended before kappa_max; `note` says why.
    """

    kappa: np.ndarray
    m_1: np.ndarray
    free_energy: np.ndarray
    growth: np.ndarray
    stable: np.ndarray
    complete: bool
    note: str


def branch(
    beta: float,
    d: int,
    attention: str = "unnormalized",
    l: int = 1,  # noqa: E741
    kappa_max: float | None = None,
    side: int = 1,
    log_unit: float = 0.0,
) -> Branch:
    """Return the branch of stationary laws that leaves the uniform law at `kappa_l` (FORMULAS §10).

    `kappa_l = beta/w_l` (softmax: `beta w_0/w_l`). The laws `mu ∝ exp(kappa W*mu)` or `mu ∝ Z^{kappa/beta}` are found by
    pseudo-arclength continuation, through folds. If it fails, the part found so far is returned with a warning, and
    `complete` is False.

    Args:
        beta: inverse temperature, >= 0 (at beta = 0 only l = 1 exists).
        d: dimension of the tokens.
        attention: "unnormalized" or "softmax".
        l: degree of the mode, at least 1.
        kappa_max: largest kappa; None for 2 kappa_l.
        side: for d > 2 and even l, the branch that starts with more (1) or less (-1) mass at the poles.
        log_unit: the drift is divided by `e^{log_unit}`, which multiplies kappa by the same factor.

    Returns:
        a `Branch`. Free energies and growth rates are defined in `stationary_states`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.branch(beta=4.0, d=2).kappa.min()
        np.float64(0.38706899595204103)
    """
    beta, d, attention = positive("beta", beta, or_zero=True), count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    mode = count("l", l)
    degrees = SelfConsistency(beta, d, attention)
    if mode not in degrees.degrees:
        raise ValueError(f"l must be a mode of the kernel at beta = {beta:g}, from 1 to {degrees.degrees[-1]}, got {l}")
    if side not in (1, -1):
        raise ValueError(f"side must be 1 or -1, got {shown(side)}")
    unit = critical_kappa(beta, d, attention, log_unit)
    onset = -math.log(degrees.rho[mode - 1])
    end = onset + math.log(2) if kappa_max is None else math.log(positive("kappa_max", kappa_max)) - math.log(unit)
    found = branches(beta, d, attention, mode, end, longest=0.08)
    problem, path, _ = found[-1] if side < 0 else found[0]
    points = [(np.zeros(len(problem.degrees)), onset)] + [(point.x, point.sigma) for point in path.points]
    points = _cut(problem, points, end)
    if path.trouble:
        warnings.warn(f"the branch l = {l} at beta = {beta:g}, d = {d} is not complete: {path.trouble}", stacklevel=2)
    kappa = unit * np.exp([sigma for _, sigma in points])
    rates = np.array([0.0] + [growth(problem, x, sigma) for x, sigma in points[1:]])
    stable = [math.nan if is_stable(rate) is None else float(rate < 0) for rate in rates]
    energy = np.array([problem.free_energy(x, sigma) for x, sigma in points]) / kappa
    m_1 = np.array([problem.order(x) for x, _ in points])
    return Branch(kappa, m_1, energy, rates / kappa, np.array(stable), not path.trouble, path.trouble)


def _cut(
    problem: SelfConsistency, points: list[tuple[np.ndarray, float]], end: float
) -> list[tuple[np.ndarray, float]]:
    """Return the points without those beyond `end` at the far end of the branch, so that the last one is at `end`."""
    points_left = list(points)
    while len(points_left) > 1 and points_left[-1][1] > end and points_left[-2][1] > end:
        points_left.pop()
    if points_left[-1][1] > end and len(points_left) > 1:
        (low, one), (high, two) = points_left[-2], points_left[-1]
        x = problem.newton(low + (end - one) / (two - one) * (high - low), end)
        points_left[-1:] = [] if x is None else [(x, end)]
    return points_left


class Window(NamedTuple):
    """Thresholds of a first-order transition as `log(kappa/kappa_c)`; both are 0 if the transition is continuous.

    fold: the smallest value with an ordered law (one peak). equal: where this law and the uniform law have the same free
    energy. The uniform law is linearly stable up to 0.
    """

    fold: float
    equal: float


@lru_cache(maxsize=64)
def window(beta: float, d: int, attention: str) -> Window:
    """Return the thresholds of a first-order transition (FORMULAS §10)."""
    if transition(beta, d, attention) == "continuous":
        return Window(0.0, 0.0)
    problem, path = ordered(beta, d, attention, 0.0)
    return Window(path.points[path.lowest()].sigma, equal_energy(problem, path))


def fold(beta: float, d: int, attention: str = "unnormalized", log_unit: float = 0.0) -> float:
    """Return the smallest kappa with an ordered law (one peak), where the branch of mode 1 folds (FORMULAS §10).

    If the transition is continuous (`beta <= beta_star(d)`, or softmax), there is no fold, and `critical_kappa` is returned.
    The arguments are those of `branch`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.fold(beta=4.0, d=2)
        0.3870689959520411
    """
    unit = critical_kappa(beta, d, attention, log_unit)
    return unit * math.exp(window(float(beta), d, kernel_name(attention)).fold)


def first_order_point(beta: float, d: int, attention: str = "unnormalized", log_unit: float = 0.0) -> float:
    """Return the kappa at which the ordered law (one peak) and the uniform law have the same free energy (FORMULAS §10).

    `F = (1/kappa) ∫ p log p - ½ ∬ W`. Above this kappa the ordered law has the lower free energy. If the transition is
    continuous (`beta <= beta_star(d)`, or softmax), `critical_kappa` is returned. The arguments are those of `branch`.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.first_order_point(beta=4.0, d=2)
        0.3914751008360402
    """
    unit = critical_kappa(beta, d, attention, log_unit)
    return unit * math.exp(window(float(beta), d, kernel_name(attention)).equal)


def ordered(beta: float, d: int, attention: str, sigma: float) -> tuple[SelfConsistency, Path]:
    """Return the branch of mode 1 of a first-order transition, past its fold and the jump, and up to sigma if possible."""
    problem = SelfConsistency(beta, d, attention)
    path = trace(problem, 1, 1, sigma)
    if not path.folds or problem.free_energy(path.points[-1].x, path.points[-1].sigma) > 0:
        why = path.trouble or "no turning point"
        raise ValueError(f"beta = {beta:g}: the fold was not found for d = {d}: {why}")
    return problem, path


def equal_energy(problem: SelfConsistency, path: Path) -> float:
    """Return `log(kappa/kappa_c)` at which the free energy changes sign, after the lowest fold of the branch."""
    for one, two in pairwise(path.points[path.lowest() :]):
        if problem.free_energy(two.x, two.sigma) <= 0:
            return between(problem, one, two, lambda at: problem.free_energy(at.x, at.sigma)).sigma
    raise ValueError(f"beta = {problem.beta:g}: {path.trouble or 'free energies do not cross'}")
