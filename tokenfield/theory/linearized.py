"""The spectrum of the Fokker–Planck equation of noisy tokens, linearized at a zonal stationary law."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, hyp0f1, ive

from ..spectral.gegenbauer import basis, gauss, polynomials
from .modes import log_multiplier
from .self_consistency import SelfConsistency


def uniform_growth(problem: SelfConsistency, sigma: float) -> float:
    """Return `kappa` times the largest of `l(l+d-2)(w_l/beta - 1/kappa)` (FORMULAS §10; softmax: w_l/(beta w_0))."""
    rates = problem.degrees * (problem.degrees + problem.d - 2.0) * (math.exp(sigma) * problem.rho - 1)
    return float(rates.max())


def growth(problem: SelfConsistency, x: np.ndarray, sigma: float) -> float:
    """Return `kappa` times the largest growth rate of perturbations `F(t) Y(omega)`, Y of degree m = 0, 1, 2 on S^{d-2}.

    For d = 2 these are all perturbations (m = 0 even, m = 1 odd in the angle). Mass is conserved, and the zero mode of
    m = 1, a rotation of the whole law, is left out. NaN if rounding errors are too large (see `sector`).
    """
    rates = []
    for m in range(2 if problem.d == 2 else 3):
        matrix = sector(problem, x, sigma, m)
        if matrix is None:
            return math.nan
        spectrum = np.linalg.eigvals(matrix)
        if m == 1:
            spectrum = np.delete(spectrum, np.argmin(np.abs(spectrum)))
        rates.append(float(spectrum.real.max()))
    return max(rates)


def sector(problem: SelfConsistency, x: np.ndarray, sigma: float, m: int) -> np.ndarray | None:
    """Return the matrix of kappa times the linearized operator on perturbations of angular degree m.

    For `delta = sqrt(p) f` it is `-(-Δ + U) f - ∇·(p ∇psi)/sqrt(p)`, with `U = ½ΔV + ¼|∇V|^2` and
    `psi = s eta sum_l rho_l p_l <p_l, delta>` (`eta` = 1 for unnormalized attention, w_0/Z for softmax). The basis is
    `(1-t^2)^{m/2}` times the orthonormal polynomials of dimension d + 2m, of degree l = m, m+1, … on the sphere.

    For softmax `sqrt(p)/Z` may be exponentially large far from the peaks, and rounding errors grow with it. The result is
    None if they would exceed 1e-7.
    """
    d, s = problem.d, math.exp(sigma)
    rho = problem.all_rho()
    size = max(int(0.8 * len(problem.moments(x, sigma))), len(rho)) + 12  # sqrt(p) has fewer modes than p
    t, weights = gauss(2 * size, d + 2 * m)
    u = 1 - t * t
    A, dA = polynomials(t, size, d + 2 * m)
    degrees = np.arange(m, m + size)
    laplace = degrees * (degrees + d - 2.0)
    field = (_softmax_field if problem.softmax else _field)(problem, x, sigma, t)
    log_root = 0.5 * (field.V - problem.log_mass(x, sigma))
    top = float((log_root + field.log_eta).max())
    if (problem.softmax and top - float(log_root.max()) > 18.0) or not np.isfinite(A).all():
        return None
    if problem.softmax:  # e^-beta <= Z <= e^beta, unless the series of log Z is only rounding error at these nodes
        log_Z = log_multiplier(0, problem.beta, d) - field.log_eta
        if np.abs(log_Z).max() > problem.beta + 1e-6:
            return None
    radial = u[:, None] * dA - (m * t)[:, None] * A  # (1-t^2) d/dt of the basis, without its factor (1-t^2)^{m/2}
    # -Δ(eta f) - ∇V·∇(eta f), divided by eta: eta' = -eta L', Δeta = eta (|L'|^2 - ΔL) with L = log Z
    own = -u * field.dL**2 + field.lapL + u * field.dV * field.dL
    flux = laplace * A + own[:, None] * A + (2 * field.dL - field.dV)[:, None] * radial
    out = (weights * np.exp(log_root + field.log_eta))[:, None] * A
    inward = (weights * np.exp(log_root))[:, None] * A
    multiplier = np.zeros(size)
    multiplier[: max(0, len(rho) - m)] = rho[m:]
    U = 0.5 * field.lapV + 0.25 * u * field.dV**2
    matrix = -np.diag(laplace) - A.T @ ((weights * U)[:, None] * A)
    matrix += s * (out.T @ flux) @ (multiplier[:, None] * (A.T @ inward))
    if m == 0:  # conserve mass: delta orthogonal to 1, f to sqrt(p)
        complement = np.linalg.qr(np.c_[inward.sum(axis=0), np.eye(size)[:, 1:]])[0][:, 1:]
        matrix = complement.T @ matrix @ complement
    return matrix


class _Field(NamedTuple):
    """V, V', ΔV; log(eta); and L', ΔL of `L = -log(eta)`."""

    V: np.ndarray
    dV: np.ndarray
    lapV: np.ndarray
    log_eta: np.ndarray
    dL: np.ndarray
    lapL: np.ndarray


def _field(problem: SelfConsistency, x: np.ndarray, sigma: float, t: np.ndarray) -> _Field:
    d, s, degrees = problem.d, math.exp(sigma), problem.degrees
    values, slopes = polynomials(t, int(degrees[-1]) + 1, d)
    a, zero = s * problem.root * x, np.zeros_like(t)
    lap = -values[:, degrees] @ (a * degrees * (degrees + d - 2.0))
    return _Field(values[:, degrees] @ a, slopes[:, degrees] @ a, lap, zero, zero, zero)


def _softmax_field(problem: SelfConsistency, x: np.ndarray, sigma: float, t: np.ndarray) -> _Field:
    """Return the field from `log Z` as a sum of positive terms: accurate far from the peaks, unlike the series of Z."""
    d, beta = problem.d, problem.beta
    nodes = 1 << (max(len(problem.moments(x, sigma)), len(problem.all_rho()), int(4 * beta)) + 32).bit_length()
    at, _ = gauss(nodes, d)
    V, eta = problem.potential(x, sigma)
    mass = np.where(eta < 1e15 * eta.min(), problem.masses(V), 0.0)  # elsewhere it is rounding error
    radius = np.sqrt(np.outer(1 - at**2, 1 - problem.t**2))
    log_kernel = beta * np.outer(at, problem.t) + _log_mean_exponential(beta * radius, d - 1) - beta
    L = np.log(np.exp(log_kernel) @ mass) + beta - log_multiplier(0, beta, d)
    coefficients = basis(nodes, d).T @ (gauss(nodes, d).weights * L)
    size = np.abs(coefficients)
    coefficients = coefficients[: min(nodes // 2, 1 + int(np.nonzero(size > 1e-15 * size.max())[0].max()))]
    values, slopes = polynomials(t, len(coefficients), d)
    k = np.arange(len(coefficients))
    L, dL, lapL = values @ coefficients, slopes @ coefficients, -values @ (coefficients * k * (k + d - 2.0))
    power = math.exp(sigma) * problem.q
    return _Field(power * L, power * dL, power * lapL, -L, dL, lapL)


def _log_mean_exponential(r: np.ndarray, d: int) -> np.ndarray:
    """Return `log ∫ e^{r<x,e>} dx` over the sphere of R^d (uniform probability): w_0 of FORMULAS §8; `log cosh r` for d = 1."""
    if d == 1:
        return np.logaddexp(r, -r) - math.log(2)
    order, small = d / 2 - 1, r * r < 40 * d
    near = np.log(hyp0f1(d / 2, np.where(small, r * r / 4, 0.0)))
    far = np.where(small, 1.0, r)
    large = gammaln(d / 2) + order * np.log(2 / far) + np.log(ive(order, np.where(small, order + 1, r))) + r
    return np.where(small, near, large)
