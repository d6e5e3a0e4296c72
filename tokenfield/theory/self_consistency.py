"""The equation of zonal stationary laws of noisy tokens, in the coefficients of orthonormal polynomials."""

import math

import numpy as np

from ..spectral.gegenbauer import basis, gauss, log_dimension
from .modes import log_multiplier

TAIL, MOST_NODES = 1e-13, 1024  # bound on the moments of the highest degrees; maximum number of quadrature nodes
LARGEST = 700  # largest argument of exp


class Unresolved(ValueError):
    """The law is too concentrated for the quadrature."""


class SelfConsistency:
    """`p = e^V / ∫ e^V` with `V = s g` (unnormalized) or `V = s q log(1 + g/q)` (softmax), s = kappa/kappa_c.

    `g = sum_{l>=1} rho_l a_l p_l`, `a_l = ∫ p_l dmu`, `rho_l = w_l/w_1`, `q = w_0/w_1`: these are
    `mu ∝ exp(kappa W*mu)` and `mu ∝ Z^{kappa/beta}` of FORMULAS §10, in a form without terms that overflow at large beta or
    vanish at beta = 0. The unknowns are `x_l = sqrt(rho_l) a_l`, for degrees l that are multiples of `every`
    (an invariant subspace); `sigma = log s`. Degrees with `rho_l dim_l` at rounding level are left out.
    """

    def __init__(self, beta: float, d: int, attention: str, every: int = 1):
        self.beta, self.d, self.softmax = beta, d, attention == "softmax" and beta > 0
        first = log_multiplier(1, beta, d)
        log_q = log_multiplier(0, beta, d) - first if beta > 0 else math.inf
        self.q = math.exp(log_q) if log_q < LARGEST else math.inf
        degrees: list[int] = []
        logs, largest = [], -math.inf
        degree = every
        while beta > 0 or degree == 1:
            log = log_multiplier(degree, beta, d) - first if degree > 1 else 0.0
            weight = log + float(log_dimension(np.array(degree), d))
            if degrees and weight < largest - 41.5:  # e^-41.5 = 1e-18
                break
            degrees.append(degree)
            logs.append(log)
            largest = max(largest, weight)
            degree += every
        self.degrees, self.rho = np.array(degrees, int), np.exp(logs)
        self.root = np.sqrt(self.rho)
        self.every = every
        self._use(1 << max(6, (2 * int(self.degrees[-1]) + 8).bit_length()))

    def _use(self, nodes: int) -> None:
        self.nodes = nodes
        self.t, self.weights = gauss(nodes, self.d)
        top = min(16, nodes // 2)
        values = basis(nodes, self.d)
        if not (np.isfinite(values).all() and np.isfinite(self.weights).all()):
            raise Unresolved(f"the law is too concentrated to be resolved in dimension {self.d}")
        self.features = values[:, self.degrees] * self.root
        scale = np.exp(-0.5 * log_dimension(np.arange(nodes - top, nodes), self.d))
        self._tail = values[:, nodes - top :] * scale
        self._values = values

    def all_rho(self) -> np.ndarray:
        """Return `rho_l` for every degree l = 0, 1, … up to the last one kept, as perturbations leave the invariant subspace."""
        if self.every == 1:
            return np.r_[0.0, self.rho]
        return SelfConsistency(self.beta, self.d, "softmax" if self.softmax else "unnormalized").all_rho()

    def potential(self, x: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
        """Return V and `eta = dV/(s dg)` at the nodes."""
        g = self.features @ x
        if not self.softmax:
            return math.exp(sigma) * g, np.ones_like(g)
        Z = 1 + g / self.q
        Z = np.maximum(Z, 1e-17 * Z.max())  # below this, the series and the density are rounding error
        return math.exp(sigma) * self.q * np.log(Z), 1 / Z

    def masses(self, V: np.ndarray) -> np.ndarray:
        """Return the law at the nodes: density times weight."""
        mass = self.weights * np.exp(V - V.max())
        return mass / mass.sum()

    def linearize(self, x: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the residual `x - E[features]`, its derivative in x and its derivative in sigma."""
        V, eta = self.potential(x, sigma)
        mass = self.masses(V)
        mean = self.features.T @ mass
        centered = (self.features - mean) * mass[:, None]
        jacobian = np.eye(len(x)) - math.exp(sigma) * (centered.T @ (eta[:, None] * self.features))
        return x - mean, jacobian, -(centered.T @ V)

    def resolve(self, x: np.ndarray, sigma: float) -> bool:
        """Double the nodes if the moments `c_l` of the highest degrees are not below `TAIL`; return True if they were doubled."""
        mass = self.masses(self.potential(x, sigma)[0])
        if np.abs(self._tail.T @ mass).max() < TAIL:
            a = np.abs(self._values.T @ mass)  # in high dimension c_l is small even if the nodes miss the peak
            if a[-self._tail.shape[1] :].max() < 1e-9 * a.max():
                return False
        if self.nodes >= MOST_NODES:
            raise Unresolved(f"the law is too concentrated to be resolved by {MOST_NODES} modes")
        self._use(2 * self.nodes)
        return True

    def newton(self, x: np.ndarray, sigma: float) -> np.ndarray | None:
        """Return the solution near x at fixed sigma, or None if Newton's method fails."""
        for _ in range(40):
            residual, jacobian, _ = self.linearize(x, sigma)
            try:
                step = np.linalg.solve(jacobian, -residual)
            except np.linalg.LinAlgError:
                return None
            x = x + step
            if not np.isfinite(x).all() or np.linalg.norm(x) > 1e8:
                return None
            if np.linalg.norm(step) < 1e-11 * (1 + np.linalg.norm(x)):
                if self.resolve(x, sigma):
                    continue
                return x - np.linalg.solve(jacobian, self.linearize(x, sigma)[0])
        return None

    def moments(self, x: np.ndarray, sigma: float) -> np.ndarray:
        """Return `c_l = ∫ P_l dmu`, P_l(1) = 1, for l = 0, 1, …, up to the last above `TAIL`."""
        V, _ = self.potential(x, sigma)
        scale = np.exp(-0.5 * log_dimension(np.arange(self.nodes), self.d))
        c = scale * (self._values.T @ self.masses(V))
        last = int(np.nonzero(np.abs(c) > TAIL)[0].max())
        return c[: last + 1]

    def log_mass(self, x: np.ndarray, sigma: float) -> float:
        """Return `log ∫ e^V`."""
        V, _ = self.potential(x, sigma)
        return float(V.max()) + math.log(float(self.weights @ np.exp(V - V.max())))

    def order(self, x: np.ndarray) -> float:
        """Return `m_1 = |∫ x dmu|`."""
        return abs(float(x[0])) / math.sqrt(self.d) if self.degrees[0] == 1 else 0.0

    def free_energy(self, x: np.ndarray, sigma: float) -> float:
        """Return `kappa (F - F_uniform)`, for the functional in the docstring of `stationary_states`."""
        V, _ = self.potential(x, sigma)
        log_p = V - self.log_mass(x, sigma)
        mass, energy, s = self.masses(V), float(x @ x), math.exp(sigma)
        if not self.softmax:
            return float(mass @ log_p) - s * energy / 2
        power = s * self.q  # kappa/beta
        entropy = math.log1p(float(mass @ np.expm1(log_p / power)))
        return power * (entropy / (1 + 1 / power) - math.log1p(energy / self.q) / 2)
