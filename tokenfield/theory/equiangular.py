"""Equiangular tokens: how fast their cosine tends to 1 under each normalization rule (FORMULAS §7)."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from .._check import as_float, count, number, one_of, positive
from .._shown import shown
from ..normalization import AbstractSphereNorm
from ..normalization.base import TerminalLaw
from .names import kernel_name, norm_rule

RTOL = 1e-12


def initial_velocity(
    n: int,
    beta: float,
    norm: str | AbstractSphereNorm,
    attention: str = "softmax",
    rho0: float = 0.0,
    radius: float = 1.0,
) -> float:
    """Return `rho'` at time 0 of n equiangular tokens at cosine rho0: `(2/s) c (1-rho)(1+(n-1) rho)` (FORMULAS §7).

    From rho0 = 0 under Post-LN with softmax attention it is `2/(e^beta + n - 1)`. `norm` is a rule or its name
    ("post", "pre", …), and `radius` the length of the tokens (1 unless the norm lets it grow).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.initial_velocity(32, 1.0, tkf.PostLN())
        0.05931500336152809
    """
    n, rho0, radius, norm = _check(n, rho0, radius, norm)
    rate, _ = _rates(n, number("beta", beta), norm.segments()[0][1], attention)(0.0, 1 - rho0, radius)
    return rate * (1 - rho0)


def time_to_cosine(
    rho1: float,
    n: int,
    beta: float,
    norm: str | AbstractSphereNorm,
    rho0: float = 0.0,
    attention: str = "softmax",
    radius: float = 1.0,
) -> float:
    """Return the time at which n equiangular tokens that start at cosine rho0 reach cosine rho1 (FORMULAS §7).

    Time and radius are integrated over `lambda = -log(1 - rho)`, `dt/dlambda = s / (2 c (1 + (n-1) rho))`, with relative
    tolerance 1e-12. The time is infinite for rho1 = 1, and from the balanced state `rho0 = -1/(n-1)`, which is stationary.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.time_to_cosine(0.999, n=32, beta=1.0, norm=tkf.PostLN())  # 5.27028
        5.270283907587027
    """
    n, rho0, radius, norm = _check(n, rho0, radius, norm)
    rho1, beta = number("rho1", rho1), number("beta", beta)
    if not rho0 <= rho1 <= 1:
        raise ValueError(f"rho1 must lie in [rho0, 1] = [{rho0:g}, 1], got {shown(rho1)}")
    if rho1 == rho0:
        return 0.0
    if rho1 == 1 or 1 + (n - 1) * rho0 <= 1e-12:
        return math.inf
    place, end, t, r = -math.log1p(-rho0), -math.log1p(-rho1), 0.0, radius
    for until, rule in norm.segments():
        rates = _rates(n, beta, rule, attention)

        def rhs(lam, y, rates=rates):
            rate, growth = rates(y[0], math.exp(-lam), y[1])
            return [1 / rate, growth / rate]

        def reached(lam, y, until=until):
            return y[0] - until

        reached.terminal = True  # type: ignore[attr-defined]
        events = None if math.isinf(until) else reached
        found = solve_ivp(rhs, (place, end), [t, r], "DOP853", events=events, rtol=RTOL, atol=1e-14)
        if not found.success:
            raise ValueError(f"time_to_cosine: the integration failed: {found.message}")
        place, (t, r) = found.t[-1], found.y[:, -1]
        if found.status == 0:
            return float(t)
    return float(t)


def terminal_law(n: int, beta: float, norm: str | AbstractSphereNorm, attention: str = "softmax") -> TerminalLaw:
    """Return the law by which `1 - rho` tends to 0 as t grows (FORMULAS §7, last column).

    Example:
        >>> import tokenfield as tkf
        >>> tkf.theory.terminal_law(32, 1.0, tkf.PreLN())  # t^-2
        TerminalLaw(text='t^-2', kind='power', rate=2.0)
    """
    count("n", n, 2)
    scale = 1.0 if kernel_name(attention) == "softmax" else _exp(number("beta", beta))
    return norm_rule(norm).terminal_law(scale)


def fit_terminal_law(times: ArrayLike, gap: ArrayLike, kind: str) -> float:
    """Fit the rate of a `TerminalLaw` to `1 - rho` over time.

    The rate is minus the slope of `log(gap)` against t, log t or sqrt(t), by least squares.

    Args:
        times: (m,) times.
        gap: (m,) values of `1 - rho`, > 0.
        kind: "exponential", "power" or "stretched".

    Example:
        >>> import numpy as np, tokenfield as tkf
        >>> t = np.linspace(1.0, 2.0)
        >>> tkf.theory.fit_terminal_law(t, np.exp(-3 * t), "exponential")
        3.0000000000000013
    """
    t, gap = np.asarray(as_float("times", times)), np.asarray(as_float("gap", gap))
    if t.ndim != 1 or t.shape != gap.shape or t.size < 2:
        raise ValueError(f"times and gap must be vectors of the same length >= 2, got {t.shape} and {gap.shape}")
    if not (gap > 0).all():
        raise ValueError("gap must be > 0 everywhere: leave out times after the tokens have met")
    scales: dict[str, Any] = {"exponential": np.asarray, "power": np.log, "stretched": np.sqrt}
    one_of("kind", kind, scales)
    if kind in ("power", "stretched") and not (t > 0).all():
        raise ValueError(f"times must be > 0 for kind {kind}, got {t.min():g}")
    return float(-np.polyfit(scales[kind](t), np.log(gap), 1)[0])


def _check(
    n: int, rho0: float, radius: float, norm: str | AbstractSphereNorm
) -> tuple[int, float, float, AbstractSphereNorm]:
    n, norm = count("n", n, 2), norm_rule(norm)
    rho0 = number("rho0", rho0)
    if not -1 / (n - 1) - 1e-12 <= rho0 <= 1:
        raise ValueError(f"rho0 must lie in [-1/(n-1), 1] = [{-1 / (n - 1):.6g}, 1], got {shown(rho0)}")
    return n, float(rho0), positive("radius", radius), norm


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _rates(n: int, beta: float, rule: AbstractSphereNorm, attention: str):
    """Return `(t, u, r) -> (rate, growth)` with `u' = -rate u`, `u = 1 - rho`, `r' = growth`."""
    normalized = kernel_name(attention) == "softmax"

    def rates(t: float, u: float, r: float) -> tuple[float, float]:
        if normalized:
            a, c = 1 / (1 + (n - 1) * _exp(-beta * u)), 1 / (_exp(beta * u) + n - 1)
        else:
            a, c = _exp(beta) / n, _exp(beta * (1 - u)) / n
        rho = 1 - u
        inner = a + (n - 1) * c * rho
        length = math.sqrt(a * a + (n - 1) * c * (2 * a * rho + c * (1 + (n - 2) * rho)))
        given: list[Any] = [t, r, inner, length]
        speed, growth = float(rule.speed(*given)), float(rule.growth(*given))
        if not math.isfinite(speed * c) or speed * c == 0:
            raise ValueError(f"beta = {beta:g} is out of range: e^beta overflows or underflows")
        return 2 * speed * c * (1 + (n - 1) * rho), growth

    return rates
