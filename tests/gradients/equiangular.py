"""Equal angles (FORMULAS §7): `rho(t)`, the time to reach a cosine, and their derivatives by beta, rho_0 and a third number.

Two ways: the variational equation, in time and with the cosine as the independent variable; and, where one number moves,
differentiated quadrature in mpmath: `t = ∫ d rho / F`, `dt/dbeta = -∫ F_beta / F^2 d rho`.
"""

from typing import NamedTuple

import mpmath as mp
import numpy as np

from .variational import jacobian, sensitivity

TAU = 1.5


class Case(NamedTuple):
    """A kernel ("softmax" or "unnormalized"), a norm, and `p = (beta, rho_0, third)`: radius, alpha or V."""

    kernel: str
    norm: str
    beta: float
    third: str
    value: float = 1.0
    rho: float = 0.05
    t: float = 2.0

    @property
    def p(self):
        return np.array([self.beta, self.rho, self.value])


CASES = {
    "SA": Case("softmax", "post", 4.0, "V", 0.8, t=5.0),
    "USA": Case("unnormalized", "post", 1.0, "V", 0.8, t=1.5),
    "SA, Pre-LN": Case("softmax", "pre", 2.0, "radius", 1.3),
    "SA, Peri-LN": Case("softmax", "peri", 2.0, "radius", 1.3),
    "SA, Mix-LN": Case("softmax", "mix", 2.0, "V", 1.0),
    "SA, nGPT": Case("softmax", "ngpt", 2.0, "alpha", 0.7),
    "SA, sqrt scaling": Case("softmax", "sqrt", 2.0, "V", 0.8),
}
N = 32


def rates(case, norm, t, rho, r, p, exp=np.exp, sqrt=np.sqrt):
    """`rho', r'`; for complex arrays, or in mpmath with its functions."""
    beta, n = p[0], N
    own, other = exp(beta * (1 - rho)), 1.0
    Z = own + (n - 1) * other if case.kernel == "softmax" else n * exp(-beta * rho)
    v = p[2] if case.third == "V" else 1.0
    a, c = v * own / Z, v * other / Z
    inner = a + (n - 1) * c * rho
    size = sqrt(a * a + (n - 1) * c * (2 * a * rho + c * (1 + (n - 2) * rho)))
    speed = {
        "post": lambda: 1.0,
        "pre": lambda: 1 / r,
        "peri": lambda: 1 / (r * size),
        "ngpt": lambda: p[2] / size,
        "sqrt": lambda: 1 / sqrt(t + 1),
    }[norm]()
    growth = {"pre": inner, "peri": inner / size}.get(norm, 0 * rho)
    return 2 * speed * c * (1 - rho) * (1 + (n - 1) * rho), growth


def start(case):
    """`(rho, r)` at time 0 and its derivatives by p."""
    radius = case.value if case.third == "radius" else 1.0
    slope = np.zeros((2, 3))
    slope[0, 1], slope[1, 2] = 1.0, float(case.third == "radius")
    return np.array([case.rho, radius]), slope


def in_time(case, t1):
    """`(rho, r)` at t1 and its derivatives (2, 3)."""
    y, S = start(case)
    t0 = 0.0
    for end, norm in segments(case, t1):
        f = lambda t, Y, P, norm=norm: np.stack(rates(case, norm, t, Y[:, 0], Y[:, 1], P.T), 1)  # noqa: E731
        y, S = sensitivity(f, t0, end, y, case.p, S)
        t0 = end
    return y, S


def segments(case, t1):
    if case.norm != "mix":
        return [(t1, case.norm)]
    return [(min(TAU, t1), "post")] + ([(t1, "pre")] if t1 > TAU else [])


def time_to(case, goal):
    """The time at which rho = goal and its derivatives (3,), with `s` from 0 to 1 and `log(1-rho)` linear in s."""
    t, norm = 0.0, case.norm
    y, S = start(case)
    if norm == "mix":
        y, S = in_time(case, TAU)
        assert y[0] < goal
        t, norm = TAU, "pre"

    def rate(s, Y, P):  # unknown (t, r); parameters p and the first (rho, r)
        first, last = np.log(1 - P[:, 3]), np.log(1 - goal)
        rho = 1 - np.exp(first + s * (last - first))
        drho, dr = rates(case, norm, Y[:, 0], rho, Y[:, 1], P[:, :3].T)
        slow = -(last - first) * (1 - rho) / drho  # dt/ds
        return np.stack([slow, slow * dr], 1)

    parameters = np.concatenate([case.p, y])
    first = np.zeros((2, 5))
    first[1, 4] = 1.0  # the radius at the beginning of this part
    (t_goal, _), D = sensitivity(rate, 0.0, 1.0, [t, y[1]], parameters, first)
    return t_goal, D[0, :3] + D[0, 3:] @ S


def by_quadrature(case, goal):
    """Time to reach a cosine and its derivatives by beta and the third number, where rho moves by itself, in mpmath.

    `t = ∫ d rho / F(rho; beta)` in the variable `log(1 - rho)`; a complex beta gives the derivative with the value.
    """
    assert case.norm in ("post", "ngpt", "sqrt")
    with mp.workdps(30):
        norm = "post" if case.norm == "sqrt" else case.norm
        p, h = [mp.mpf(float(z)) for z in case.p], mp.mpf(10) ** -15
        ends = mp.linspace(-mp.log(1 - p[1]), -mp.log(1 - mp.mpf(goal)), 5)

        def time(*shift):
            q = [z + 1j * h * e for z, e in zip(p, shift, strict=True)]

            def slowness(s):
                return mp.exp(-s) / rates(case, norm, 0, 1 - mp.exp(-s), 1, q, mp.exp, mp.sqrt)[0]

            found = mp.quad(slowness, ends, maxdegree=5)
            return (found / 2 + 1) ** 2 - 1 if case.norm == "sqrt" else found  # sqrt scaling runs on another clock

        by_beta, by_third = time(1, 0, 0), time(0, 0, 1)
        return float(by_beta.real), np.array([float(z.imag / h) for z in (by_beta, by_third)])


def pre_by_quadrature(case, goal, nodes=120):
    """Time to reach a cosine under Pre-LN and its derivatives by beta and radius: `r = r_0 exp ∫ g/f`, `t = ∫ r/f d rho`.

    Gauss–Legendre in `log(1 - rho)`, with a complex beta.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    low, high = -np.log(1 - case.rho), -np.log(1 - goal)

    def time(z):
        one = lambda s: rates(case, "pre", 0.0, 1 - np.exp(-s), 1.0, (z[0], case.rho, 1.0))  # noqa: E731
        outer = low + (high - low) * (x + 1) / 2
        inner = low + (outer[:, None] - low) * (x + 1) / 2
        f, g = one(inner)
        log_r = (g / f * np.exp(-inner)) @ w * (outer - low) / 2
        f, _ = one(outer)
        return ((np.exp(log_r) / f * np.exp(-outer)) @ w * (high - low) / 2 * z[1])[None]

    z = np.array([case.beta, case.value])
    slope = jacobian(lambda Z: np.array([time(row) for row in Z]), z)[0]
    return time(z)[0], slope
