"""How long finitely many noisy tokens stay close to their mean field: for all times, up to a rotation, or for log n."""

import math
from functools import lru_cache

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, close

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
SPREAD, ORDERED = 1.0, 4.0  # kappa below and above kappa_c = 2 of the noisy Kuramoto model
SHARP, COLD = 6.0, 40.0  # beta and kappa of a metastable case


def tokens(beta: float, kappa: float, n: int, times: np.ndarray, runs: int, dt: float) -> np.ndarray:
    """(run, time, n) angles of USA on the circle with noise, from independent uniform angles."""
    model = tkf.Transformer(tkf.Unnormalized(beta, log_unit=0.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa))
    starts = [tkf.circle_tokens(np.random.default_rng(1000 * n + k).uniform(0, 2 * np.pi, n)) for k in range(runs)]
    found = tkf.simulate_many(model, starts, times[-1], seeds=range(runs), save_at=times, dt=dt, progress=False)
    x = found.dataset["x"].values
    return np.arctan2(x[..., 1], x[..., 0])


def waves(angles: np.ndarray, k: int) -> np.ndarray:
    """The k-th Fourier coefficient of the empirical measures."""
    return np.exp(1j * k * angles).mean(-1)


def fluctuation(k: int, rate: float, kappa: float, t: np.ndarray) -> np.ndarray:
    """`n E|z_k|²` about the uniform law: `z' = lambda z + noise`, whose strength is `2k²/(kappa n)`, from `1/n`."""
    growth = rate - k * k / kappa
    return np.exp(2 * growth * t) + k * k / kappa * np.expm1(2 * growth * t) / growth


@lru_cache(maxsize=1)
def ordered(kappa: float) -> tuple[float, float]:
    """r of the ordered law, and `n Var |z|` by the Gibbs law `e^{n kappa r²/2}`: `1/(1/A'(x) - kappa)`, `x = kappa r`, `A = I_1/I_0`."""
    from scipy.optimize import brentq
    from scipy.special import ive

    A = lambda x: ive(1, x) / ive(0, x)  # noqa: E731
    x = brentq(lambda x: A(x) - x / kappa, 0.1, 2 * kappa)
    return x / kappa, 1 / (1 / (1 - A(x) / x - A(x) ** 2) - kappa)


def measure(quick: bool) -> Evidence:
    runs, n = (200, 64) if quick else (1000, 128)
    times = np.array([0.0, 1.0, 5.0, 20.0, 50.0] if quick else [0.0, 1.0, 5.0, 20.0, 50.0, 200.0])
    checks = []
    below = np.abs(waves(tokens(0.0, SPREAD, n, times, runs, 0.05), 1)) ** 2 * n
    exact = fluctuation(1, 0.5, SPREAD, times)
    for t, values, value in zip(times, below.T, exact, strict=True):
        error = values.std() / math.sqrt(runs)
        text = f"κ = {SPREAD:g} < κ_c, t = {t:g}: n E|z|² of {n} tokens"
        checks.append(close(text, value, values.mean(), atol=4 * error + 3 * value**2 / n))
    above = waves(tokens(0.0, ORDERED, n, times, runs, 0.05), 1)
    r, variance = ordered(ORDERED)
    for index in (-2, -1):
        values = n * (np.abs(above[:, index]) - np.abs(above[:, index]).mean()) ** 2
        error = values.std() / math.sqrt(runs)
        text = f"κ = {ORDERED:g} > κ_c, t = {times[index]:g}: n Var |z|"
        checks.append(close(text, variance, values.mean(), atol=4 * error + 12 * variance / n))
        checks.append(close(f"the same, mean of |z|", r, np.abs(above[:, index]).mean(), atol=0.02))
    rates = tkf.theory.growth_rates(SHARP, 2, "unnormalized", modes=6)
    fastest = int(np.argmax([rate - k * k / COLD for k, rate in enumerate(rates)]))
    growth = rates[fastest] - fastest**2 / COLD
    early = np.array([0.0, 0.5, 1.0]) / growth
    metastable = np.abs(waves(tokens(SHARP, COLD, n, early, runs, 0.02 / growth), fastest)) ** 2 * n
    for t, values, value in zip(early, metastable.T, fluctuation(fastest, rates[fastest], COLD, early), strict=True):
        error = values.std() / math.sqrt(runs)
        text = f"USA, β = {SHARP:g}, κ = {COLD:g}, t = {t:.3g}: n E|z_k|² of the fastest mode, k = {fastest}"
        checks.append(close(text, value, values.mean(), atol=4 * error + 4 * value**2 / n))
    sizes = np.array([32, 128, 512])
    grid = np.linspace(0, 24, 49)
    departure = np.array([departed(size, grid, 60 if quick else 300) for size in sizes])
    slope = float(np.polyfit(np.log(sizes), departure, 1)[0])
    checks.append(close("κ = 4: time until E|z|² = r²/4, slope in log n", 1 / (2 * 0.25), slope, rtol=0.15))
    return Evidence(tuple(checks), draw(times, below, exact, sizes, departure), CAPTION)


def departed(n: int, grid: np.ndarray, runs: int) -> float:
    """The time at which `E|z|²` of n ordering tokens reaches a quarter of its last value in the mean field, from uniform starts."""
    found = (np.abs(waves(tokens(0.0, ORDERED, n, grid, runs, 0.1), 1)) ** 2).mean(0)
    return float(np.interp(ordered(ORDERED)[0] ** 2 / 4, found, grid))


CAPTION = (
    "Noisy Kuramoto model. Left: n E|z|² of tokens below κ_c (dots, with standard errors) and by theory (line): it stays bounded for "
    "all times. Right: above κ_c, the time at which uniform tokens have left their mean field, which stays uniform, against n; line: "
    "slope 1/(2λ) in log n."
)


def draw(times, below, exact, sizes, departure):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    line = np.linspace(0, times[-1], 400)
    left.plot(line, fluctuation(1, 0.5, SPREAD, line), color=ORANGE, label="theory")
    left.errorbar(times, below.mean(0), below.std(0) / math.sqrt(len(below)), fmt="o", ms=4, color=BLUE, label="tokens")
    left.axhline(1 / (1 - SPREAD / 2), color="0.5", ls=":", lw=1)
    left.set(xlabel="time t", ylabel="n E|z|²", xscale="symlog", ylim=(0, None))
    left.legend(frameon=False, loc="lower right")
    right.semilogx(sizes, departure, "o", color=BLUE)
    middle = departure.mean() - 2 * np.log(sizes).mean()
    right.semilogx(sizes, middle + 2 * np.log(sizes), color=ORANGE, label="slope 1/(2λ) = 2")
    right.set(xlabel="n", ylabel="time of departure")
    right.set_xticks(sizes, labels=[str(size) for size in sizes])
    right.minorticks_off()
    right.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="chaos_in_time",
    section="Noise",
    title="How long noisy tokens follow their mean field",
    statement="Below κ_c = 2 noisy Kuramoto tokens follow their mean field uniformly in time: n E|z|² rises from 1 to 1/(1 − κ/2) and "
    "stays there. Above it the radius |z| does so as well, with n Var |z| → 1/(1/A′(κr) − κ), A = I₁/I₀, while the direction wanders. From a "
    "uniform start, which the mean field does not leave, tokens depart after log n/(2λ). The same holds at β in the metastable regime: there "
    "fluctuations n E|z_k|² = e^{2λt} + (k²/κ)(e^{2λt} − 1)/λ choose the first clusters, so no bound holds for all times.",
    source="Rigollet, The mean-field dynamics of Transformers, §3; fluctuations and times derived here",
    measure=measure,
)
