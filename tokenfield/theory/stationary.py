"""Stationary laws of noisy tokens on the sphere that are symmetric about an axis."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._check import count, positive
from ..spectral.gegenbauer import polynomials
from .continuation import LONGEST, Path, between, near_onset, trace
from .linearized import growth, uniform_growth
from .names import MOST_DIMENSION, kernel_name
from .noise import critical_kappa
from .self_consistency import SelfConsistency


class StationaryState(NamedTuple):
    """A stationary law, a function of `t = <x, e>`.

    Attributes:
        kind: "uniform", "one peak" (mode 1), on the circle "2 peaks", "3 peaks", …; for d > 2 "l = 3" or
            "l = 2, poles high" / "l = 2, poles low" (for an even mode, two branches leave the uniform law).
        mode: the l at which its branch leaves the uniform law (0: the uniform law itself).
        m_1: the order parameter `|∫ x dmu|`.
        free_energy: free energy minus that of the uniform law.
        growth: the largest growth rate of perturbations (see `stationary_states`); NaN if rounding errors are too large.
        stable: growth < 0; None if growth is NaN or 0 within rounding (1e-7/kappa).
        coefficients: `c_l = ∫ P_l dmu`, P_l(1) = 1, for l = 0, 1, … until they stay below 1e-13.
        series, power, log_mass: parameters of `density`.
    """

    kind: str
    mode: int
    m_1: float
    free_energy: float
    growth: float
    stable: bool | None
    coefficients: np.ndarray
    d: int
    series: np.ndarray
    power: float
    log_mass: float

    def density(self, t: np.ndarray | float) -> np.ndarray:
        """Return the density at `<x, e> = t`, with respect to the uniform probability: `exp(kappa W*mu)` or `Z^{kappa/beta}`.

        It is normalized; `series` holds W*mu or Z/w_0 - 1 in the orthonormal polynomials.
        """
        t = np.asarray(t, float)
        V = polynomials(t.ravel(), len(self.series), self.d)[0] @ self.series
        if self.power:
            V = self.power * np.log(np.maximum(1 + V, 1e-17))
        return np.exp(V - self.log_mass).reshape(t.shape)


def stationary_states(
    beta: float,
    kappa: float,
    d: int,
    attention: str = "unnormalized",
    log_unit: float = 0.0,
    l_max: int | None = None,
) -> list[StationaryState]:
    """Return stationary laws of `dX = P(drift) dt + sqrt(2/kappa) dW` on the sphere of R^d, symmetric about an axis.

    Unnormalized attention: `mu ∝ exp(kappa W*mu)`, `W = e^{beta<x,y>}/beta`; softmax: `mu ∝ Z^{kappa/beta}`,
    `Z = ∫ e^{beta<x,y>} dmu` (FORMULAS §10; at beta = 0 both are `mu ∝ exp(kappa <x, ∫ y dmu>)`). The uniform law
    comes first, then those on the branches that leave it at `kappa_l = beta/w_l` (softmax: `beta w_0/w_l`), l = 1, 2,
    …, computed by continuation through their folds. Secondary branches, which leave these branches (peaks of unequal mass, say),
    are not computed. The search ends with the first l whose branch stays above kappa. Laws within 1e-5 of uniform are left out.

    Free energy. Unnormalized: `F = (1/kappa) ∫ p log p - ½ ∬ W dmu dmu`, which decreases in time. Softmax has no
    gradient structure of this kind, since `e^{beta<x,y>}/Z(x)` is not symmetric; but `p^{beta/kappa} ∝ ∫ e^{beta<x,y>} dmu`
    is the Euler equation of `F = (1/(beta r)) log ∫ p^r - (1/(2 beta)) log ∬ e^{beta<x,y>} dmu dmu`, `r = 1 + beta/kappa`
    (a Rényi entropy): stationary laws are its critical points, and as beta → 0 it tends to that of unnormalized attention.
    Whether it decreases along the softmax flow is not known.

    Stability: the spectrum of the linearized Fokker–Planck equation for perturbations `F(t) Y(omega)`, Y a harmonic of
    degree 0, 1 or 2 on the sphere around the axis (on the circle these are all), excluding the rotation of the law.

    Args:
        beta: inverse temperature, >= 0.
        kappa: inverse noise, > 0.
        d: dimension of the tokens.
        attention: "unnormalized" or "softmax".
        log_unit: the drift is divided by `e^{log_unit}` (as `Unnormalized` does for large beta); kappa is in that unit.
        l_max: the last mode l to continue; None for all.

    Example:
        >>> import tokenfield as tkf
        >>> [(state.kind, state.m_1, state.stable) for state in tkf.theory.stationary_states(4.0, 0.39, d=2)]
        [('uniform', 0.0, True), ('one peak', 0.4257696022674444, False), ('one peak', 0.6483544578180964, True)]
    """
    beta, kappa, d = positive("beta", beta, or_zero=True), positive("kappa", kappa), count("d", d, 2, MOST_DIMENSION)
    attention, last = kernel_name(attention), None if l_max is None else count("l_max", l_max, 0)
    sigma = math.log(kappa) - math.log(critical_kappa(beta, d, attention, log_unit))
    whole = SelfConsistency(beta, d, attention)
    rate = uniform_growth(whole, sigma) / kappa
    found = [
        StationaryState("uniform", 0, 0.0, 0.0, rate, is_stable(rate * kappa), np.ones(1), d, np.zeros(1), 0.0, 0.0)
    ]
    for mode in range(1, len(whole.degrees) + 1 if last is None else 1 + min(last, len(whole.degrees))):
        here: list[StationaryState] = []
        for problem, path, kind in branches(beta, d, attention, mode, sigma):
            if path.trouble and not (path.points and path.points[-1].sigma > sigma):
                raise ValueError(f"kappa = {kappa:g} is out of reach for the branch l = {mode}: {path.trouble}")
            here += [_state(problem, x, sigma, kappa, kind, mode) for x in crossings(problem, path, sigma)]
        found += here
        if not here and sigma < -math.log(whole.rho[mode - 1]):
            break
    return found


def branches(
    beta: float, d: int, attention: str, mode: int, sigma: float, longest: float = LONGEST
) -> list[tuple[SelfConsistency, Path, str]]:
    """Return the branches that leave the uniform law at a mode, up to sigma at least, each with its equation and name."""
    every = mode if d == 2 else 2 - mode % 2  # an invariant subspace of the equation
    two_sided = d > 2 and mode % 2 == 0  # else a rotation maps one side to the other
    found = []
    for sign in (1, -1) if two_sided else (1,):
        problem = SelfConsistency(beta, d, attention, every)
        onset = -math.log(problem.rho[int(np.nonzero(problem.degrees == mode)[0][0])])
        path = trace(problem, mode, sign, max(sigma, onset) + 0.1, longest)
        kind = "one peak" if mode == 1 else f"{mode} peaks" if d == 2 else f"l = {mode}"
        found.append((problem, path, kind + (f", poles {'high' if sign > 0 else 'low'}" if two_sided else "")))
    return found


def crossings(problem: SelfConsistency, path: Path, sigma: float) -> list[np.ndarray]:
    """Return the laws x of a branch at sigma."""
    return near_onset(problem, path, sigma) + [
        between(problem, one, two, lambda at: at.sigma - sigma).x
        for one, two in pairwise(path.points)
        if (one.sigma <= sigma) != (two.sigma <= sigma)
    ]


def _state(
    problem: SelfConsistency, x: np.ndarray, sigma: float, kappa: float, kind: str, mode: int
) -> StationaryState:
    rate, energy = growth(problem, x, sigma), problem.free_energy(x, sigma) / kappa
    series, power = np.zeros(int(problem.degrees[-1]) + 1), math.exp(sigma) * problem.q if problem.softmax else 0.0
    series[problem.degrees] = problem.root * x / (problem.q if problem.softmax else math.exp(-sigma))
    shape = problem.moments(x, sigma), problem.d, series, power, problem.log_mass(x, sigma)
    return StationaryState(kind, mode, problem.order(x), energy, rate / kappa, is_stable(rate), *shape)


def is_stable(rate: float) -> bool | None:
    """Return whether kappa times the growth rate is negative; None if it is 0 within rounding."""
    return rate < 0 if abs(rate) > 1e-7 else None
