"""Noisy tokens in two clusters follow their mean field, which stays at the saddle forever, for a time log n/(2λ)."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import tokenfield as tkf

from ..claim import Check, Claim, Evidence, at_least, close

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
BETA, KAPPA = 2.0, 7.5
GRID = 256
SIGMAS = 3.5  # tolerance of checks, in standard errors
MEAN_LOG, SPREAD_LOG = -(np.euler_gamma + math.log(2)) / 2, math.pi / math.sqrt(8)  # of log|g|, g standard normal


class Saddle(NamedTuple):
    """A stationary law with two peaks and its unstable direction.

    growth: the rate λ from `theory.stationary_states`. rate: the same, from the matrix here. angles, law: the density on a grid.
    mode: the left eigenfunction f, with maximum 1. start: `Var f`. noise: `(1/(kappa λ)) ∫ f'² dmu`. merged: m_1 of one peak.
    """

    growth: float
    rate: float
    angles: np.ndarray
    law: np.ndarray
    mode: np.ndarray
    start: float
    noise: float
    merged: float

    def variance(self, times):
        """Return `n E a²` of the amplitude `a = mean f(theta_i)`: `a' = λ a + noise`, from independent tokens."""
        return self.start * np.exp(2 * self.rate * times) + self.noise * np.expm1(2 * self.rate * times)


@lru_cache(maxsize=4)
def saddle(beta: float, kappa: float) -> Saddle:
    """Return the two-peak law under USA with noise on the circle, with the leading eigenpair of the adjoint linearization.

    `L* f = f''/kappa + b f' + ∫ f'(theta) k(theta - ·) dmu(theta)`, `k(a) = -sin(a) e^{beta cos a}`, `b = ∫ k(· - phi) dmu(phi)`,
    with spectral (Fourier) derivatives.
    """
    known = {state.kind: state for state in tkf.theory.stationary_states(beta, kappa, 2)}
    angles = 2 * np.pi * np.arange(GRID) / GRID
    law = known["2 peaks"].density(np.cos(angles)) / GRID  # masses of the points of the grid
    waves = np.fft.fftfreq(GRID, 1 / GRID)
    waves[GRID // 2] = 0
    derivative = np.fft.ifft(1j * waves[:, None] * np.fft.fft(np.eye(GRID), axis=0), axis=0).real
    apart = angles[:, None] - angles
    pull = -np.sin(apart) * np.exp(beta * np.cos(apart))
    adjoint = (
        derivative @ derivative / kappa + (pull @ law)[:, None] * derivative + pull.T @ (law[:, None] * derivative)
    )
    rates, modes = np.linalg.eig(adjoint)
    first = np.argmax(rates.real)
    rate, mode = float(rates[first].real), modes[:, first].real
    mode = mode / mode[np.argmax(np.abs(mode))]
    start = float(law @ mode**2 - (law @ mode) ** 2)
    noise = float(law @ (derivative @ mode) ** 2 / (kappa * rate))
    return Saddle(known["2 peaks"].growth, rate, angles, law, mode, start, noise, known["one peak"].m_1)


def simulated(
    beta: float, kappa: float, n: int, times: np.ndarray, runs: int, dt: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return (run, time) amplitudes along the unstable direction, and order parameters, for n independent tokens of the law."""
    at = saddle(beta, kappa)
    circle = np.append(at.angles, 2 * np.pi)
    below = np.cumsum(np.append(0, (at.law + np.roll(at.law, -1)) / 2))
    draws = np.random.default_rng(n).uniform(size=(runs, n))
    starts = [tkf.circle_tokens(np.interp(row, below, circle)) for row in draws]
    model = tkf.Transformer(tkf.Unnormalized(beta, log_unit=0.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa))
    found = tkf.simulate_many(model, starts, times[-1], seeds=range(runs), save_at=times, dt=dt, progress=False)
    x = found.dataset["x"].values
    angles = np.arctan2(x[..., 1], x[..., 0]) % (2 * np.pi)
    amplitudes = np.interp(angles, circle, np.append(at.mode, at.mode[0])).mean(-1)
    return amplitudes, np.hypot(*np.moveaxis(x.mean(-2), -1, 0))


def size(what: str, amplitudes: np.ndarray, variance: float) -> Check:
    """Check the mean of log|a| against a Gaussian of this variance. Unlike `E a²`, it is not dominated by a few early exits."""
    measured = np.log(np.abs(amplitudes)).mean()
    allowed = SIGMAS * SPREAD_LOG / math.sqrt(len(amplitudes))
    return close(what, MEAN_LOG + math.log(variance) / 2, measured, atol=allowed)


def measure(quick: bool) -> Evidence:
    at, few, many, runs = saddle(BETA, KAPPA), 16, 128 if quick else 512, 300 if quick else 600
    start, long = np.arange(0.0, 4.0), np.arange(0.0, 31.0 if quick else 46.0)
    checks = [close(f"β = {BETA:g}, κ = {KAPPA:g}: rate λ of two peaks, by two methods", at.growth, at.rate, rtol=1e-7)]
    linear, _ = simulated(BETA, KAPPA, many, start, runs, 0.1)
    left, order = simulated(BETA, KAPPA, few, long, runs, 0.05)
    for k in (1, 2, 3):
        checks.append(size(f"mean of log|a|, n = {many}, t = {k}", linear[:, k], at.variance(k) / many))
    checks.append(size(f"mean of log|a|, n = {few}, t = 1", left[:, 1], at.variance(1) / few))
    power = (np.log(np.abs(linear[:, 1])).mean() - np.log(np.abs(left[:, 1])).mean()) / math.log(many / few)
    allowed = SIGMAS * SPREAD_LOG * math.sqrt(2 / runs) / math.log(many / few)
    checks.append(close("power of n in the error, t = 1", -0.5, power, atol=allowed))
    merged = order[:, -1] > 0.9
    checks.append(
        at_least(f"fraction of runs of {few} tokens that end in one peak by t = {long[-1]:g}", 0.97, merged.mean())
    )
    checks.append(
        close("their order parameter at that time (mean field: 0)", at.merged, order[merged, -1].mean(), atol=0.003)
    )
    checks.append(time_scale())
    if not quick:
        checks.append(departures({n: simulated(BETA, KAPPA, n, long, 200, 0.1)[1] for n in (32, 128, 512)}, long))
    return Evidence(tuple(checks), draw(at, {many: (start, linear), few: (long, left)}), CAPTION)


def time_scale() -> Check:
    """Check how the rate depends on beta at fixed peak width: the drift at a peak is `e^beta`, so kappa is `400 e^-beta`."""
    betas = np.array([2.0, 5.0])
    rates = [saddle(beta, 400 * math.exp(-beta)).rate for beta in betas]
    slope = float(np.polyfit(betas, np.log(rates), 1)[0])
    return close("slope of log λ against β = 2 and 5, κ = 400 e^(−β)", -1.0, slope, atol=0.03)


def departures(orders: dict[int, np.ndarray], times: np.ndarray) -> Check:
    """Check the mean time at which tokens leave the two peaks, against log n: the slope is 1/(2λ)."""
    first = {n: times[np.argmax(order > 0.5, axis=1)] for n, order in orders.items()}
    logs = np.log(list(first))
    lever = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    errors = np.array([found.std() / math.sqrt(len(found)) for found in first.values()])
    slope, allowed = (
        lever @ [found.mean() for found in first.values()],
        SIGMAS * math.sqrt(((lever * errors) ** 2).sum()),
    )
    return close(
        "slope of the mean departure time against log n", 1 / (2 * saddle(BETA, KAPPA).rate), slope, atol=allowed
    )


CAPTION = (
    "USA on the circle with noise, β = 2, κ = 7.5, from independent samples of the stationary law with two peaks. The mean field "
    "never leaves this law. Left: the law, and the function f (scaled) whose mean is the amplitude a along the unstable direction. "
    "Right: √n times the typical |a| (dots), and theory (line), until the clusters merge."
)


def draw(at: Saddle, found):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    density = at.law * GRID / (2 * np.pi)
    rotated = np.where(at.angles > 1.5 * np.pi, at.angles - 2 * np.pi, at.angles)
    order = np.argsort(rotated)
    left.plot(rotated[order], density[order], color=BLUE, label="density")
    left.plot(rotated[order], at.mode[order] * density.max() / 2, color=GREEN, label="f")
    left.set(
        xlabel="angle", ylim=(-0.6 * density.max(), 1.5 * density.max()), xticks=[0, np.pi], xticklabels=["0", "π"]
    )
    left.legend(frameon=False, loc="upper center", ncols=2)
    end = 0.0
    for (n, (times, amplitudes)), color in zip(sorted(found.items()), (BLUE, GREEN), strict=True):
        typical = np.sqrt(n) * np.exp(np.log(np.abs(amplitudes)).mean(0) - MEAN_LOG)
        right.semilogy(times, typical, "o", ms=4, color=color, label=f"n = {n}")
        end = max(end, typical.max())
    line = np.linspace(0, 15, 200)
    right.semilogy(line, np.sqrt(at.variance(line)), color=ORANGE, label="theory")
    right.set(xlabel="time t", ylabel="√n |a|", ylim=(None, 3 * end))
    right.legend(frameon=False, loc="lower right")
    return figure


CLAIM = Claim(
    id="chaos_metastable",
    section="Noise",
    title="Noisy tokens in metastable clusters follow their mean field for a time log n/(2λ)",
    statement="The law with two opposite peaks is a saddle of the mean field, so the mean field stays there forever. The error of "
    "n tokens grows along the unstable direction f as n E a² = Var f e^{2λt} + (e^{2λt} − 1) ∫f′²dμ/(κλ), until the clusters merge "
    "after a time log n/(2λ). So no bound holds for all times. But λ falls like e^{−β}, so propagation of chaos holds for times "
    "of order e^β log n.",
    source="Derived here; Rigollet, The mean-field dynamics of Transformers, §3 and §5 (the questions)",
    measure=measure,
)
