"""How long finitely many noisy Kuramoto tokens stay close to their mean field: for all times, or only up to rotation."""

import math
from typing import NamedTuple

import numpy as np

import tokenfield as tkf

from ..claim import Check, Claim, Evidence, close
from .mckean_vlasov import finite_moments

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
BELOW, ABOVE = 1.0, 3.0  # kappa on both sides of kappa_c = 2
SIGMAS = 3.5  # tolerance of checks, in standard errors


class Runs(NamedTuple):
    """Fourier coefficients `z_k`, k = 1 … 4, of n tokens, with axes (run, time, k)."""

    n: int
    kappa: float
    z: np.ndarray


def ordered_law(kappa: float) -> tuple[float, float]:
    """Return r and `x = kappa r` of the ordered law `∝ e^{x cos theta}`, `r = I_1(x)/I_0(x)`."""
    from scipy.optimize import brentq
    from scipy.special import ive

    x = brentq(lambda x: ive(1, x) / ive(0, x) - x / kappa, 0.1, 2 * kappa, xtol=1e-14)
    return x / kappa, x


def simulated(cases: list[tuple[int, float, int]], times: np.ndarray, dt: float) -> list[Runs]:
    """Run each case (n, kappa, number of runs) from independent tokens drawn from a stationary law of the mean field.

    Below kappa_c this is the uniform law, above it the ordered law centered at angle 0. All cases are one ensemble:
    tokens beyond the n of a case have weight zero.
    """
    most, models, starts = max(n for n, _, _ in cases), [], []
    for n, kappa, runs in cases:
        noisy = tkf.Transformer(tkf.Unnormalized(0.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(kappa))
        sharp = ordered_law(kappa)[1] if kappa > 2 else 0.0
        angles = np.random.default_rng(n).vonmises(0.0, sharp, (runs, most))
        starts += [tkf.Tokens(tkf.circle_tokens(a).x, (np.arange(most) < n) / n) for a in angles]
        models += [noisy] * runs
    found = (
        tkf.simulate_many(models, starts, times[-1], seeds=range(len(starts)), save_at=times, dt=dt, progress=False)
        .dataset["x"]
        .values
    )
    angles, ends = np.arctan2(found[..., 1], found[..., 0]), np.cumsum([runs for _, _, runs in cases])
    return [
        Runs(n, kappa, np.stack([np.exp(1j * k * part[..., :n]).mean(-1) for k in range(1, 5)], axis=-1))
        for (n, kappa, _), part in zip(cases, np.split(angles, ends[:-1]), strict=True)
    ]


def fluctuation(n: int, kappa: float, times: np.ndarray) -> np.ndarray:
    """Return `n E|z|²` from independent uniform tokens, below kappa_c, up to relative errors of order 1/n².

    With `u = E|z|²` and `c = Re E z̄² z_2` Itô's formula gives `u' = (1 - 2/kappa) u + 2/(kappa n) - c` exactly and
    `c' = (1 - 6/kappa) c + 2u² - u/n + 8u/(kappa n) - 2/(kappa n²)` up to third order in 1/n; `u = 1/n`, `c = 1/n²` at 0.
    """
    from scipy.integrate import solve_ivp

    def slope(t, y):
        u, c = y  # times n and n²
        return (
            (1 - 2 / kappa) * u + 2 / kappa - c / n,
            (1 - 6 / kappa) * c + 2 * u * u - u + 8 * u / kappa - 2 / kappa,
        )

    return solve_ivp(slope, (0, times[-1]), (1.0, 1.0), t_eval=times, rtol=1e-10, atol=1e-12).y[0]


def phase(runs: Runs) -> np.ndarray:
    """Return (run, time) angle of the ordered state, continuous in time: the root a of `mean_i psi(theta_i - a) = 0`.

    psi is the left zero mode of the linearized mean field, `psi' = (1 - e^{-x cos theta}/I_0)/(1 - I_0^{-2})`: a has no
    drift in the linear regime. Newton's method from the angle of z: `psi'` has mean 1 under the ordered law.
    """
    k, weights = np.arange(1, 5), zero_mode(ordered_law(runs.kappa)[1])
    a = np.angle(runs.z[..., 0])
    for _ in range(3):
        a = a + (weights * (runs.z * np.exp(-1j * k * a[..., None])).imag).sum(-1)
    return np.unwrap(a, axis=1)


def wandering(kappa: float) -> float:
    """Return `n d/dt Var(phase) = (2/kappa)/(1 - I_0(kappa r)^{-2})`: the noise projected on the zero mode."""
    from scipy.special import i0

    return 2 / kappa / (1 - 1 / i0(ordered_law(kappa)[1]) ** 2)


def first_variance(kappa: float) -> float:
    """Return `n Var(phase)` of independent tokens, `∫ p psi²`: psi by its sine series, p the ordered law."""
    x = ordered_law(kappa)[1]
    a = 2 * np.pi * np.arange(512) / 512
    p = np.exp(x * np.cos(a))
    waves = np.sin(np.outer(a, np.arange(1, 5))) @ zero_mode(x)
    return float((p / p.sum()) @ waves**2)


def zero_mode(x: float) -> np.ndarray:
    """Return the coefficients of `sin k theta`, k = 1 … 4, in psi."""
    from scipy.special import ive

    k = np.arange(1, 5)
    return -2 * (-1.0) ** k * ive(k, x) / ive(0, x) / k / (1 - 1 / (ive(0, x) * math.exp(x)) ** 2)


def within(what: str, predicted: float, samples: np.ndarray) -> Check:
    """Check that the mean of independent samples is the predicted one, within `SIGMAS` standard errors."""
    return close(what, predicted, samples.mean(), atol=SIGMAS * samples.std(ddof=1) / math.sqrt(len(samples)))


def stays(what: str, values: np.ndarray, times: np.ndarray) -> Check:
    """Check that the mean of (run, time) values has no linear trend over the second half of the times."""
    late = slice(len(times) // 2, None)
    t = times[late] - times[late].mean()
    trends = values[:, late] @ t / (t @ t) * (times[-1] - times[late][0])
    return within(f"{what}, change from t = {times[late][0]:g} to {times[-1]:g}", 0.0, trends)


def measure(quick: bool) -> Evidence:
    times = np.arange(0.0, 25.0 if quick else 97.0)
    sizes, number = ((8, 64), 100) if quick else ((8, 32, 128), 150)
    found = simulated([(n, BELOW, number) for n in sizes] + [(sizes[-1], ABOVE, 150)], times, 0.2 if quick else 0.1)
    below, above = found[:-1], found[-1]
    squares = [run.n * np.abs(run.z[..., 0]) ** 2 for run in below]
    checks = [check for run, values in zip(below, squares, strict=True) for check in bounded(run, values, times)]
    checks += [power_of_n(below, [values[:, 8:].mean(1) for values in squares]), *ordered_checks(above, times)]
    return Evidence(tuple(checks), draw(times, squares[-1], sizes[-1], above), CAPTION)


def bounded(run: Runs, values: np.ndarray, times: np.ndarray) -> list[Check]:
    """Check below kappa_c that (run, time) values of `n |z|²` rise as predicted to the Gibbs value and stay there."""
    name, early = f"κ = {run.kappa:g} < κ_c, n = {run.n}", fluctuation(run.n, run.kappa, times)[1:5].mean()
    gibbs = run.n * finite_moments(run.n, run.kappa)[0]
    return [
        within(f"{name}: mean of n E|z|² at t = 1, 2, 3, 4", early, values[:, 1:5].mean(1)),
        within(f"{name}: n E|z|² from t = 8 on, Gibbs law", gibbs, values[:, 8:].mean(1)),
        stays(name + ": n E|z|²", values, times),
    ]


def power_of_n(runs: list[Runs], late: list[np.ndarray]) -> Check:
    """Check the power of n in `sqrt(E|z|²)` against the Gibbs law, where it tends to -1/2. late: `n |z|²` of each run."""
    logs = np.log([run.n for run in runs])
    error = np.array([values.std(ddof=1) / math.sqrt(len(values)) / values.mean() for values in late]) / 2
    slope = lambda squares: float(np.polyfit(logs, np.log(squares) / 2, 1)[0])  # noqa: E731
    exact = slope([finite_moments(run.n, run.kappa)[0] for run in runs])
    lever = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    what = f"κ = {BELOW:g}: power of n in the error of z at late times (Gibbs law; −1/2 for n → ∞)"
    measured = slope([values.mean() / run.n for run, values in zip(runs, late, strict=True)])
    return close(what, exact, measured, atol=SIGMAS * math.sqrt(((lever * error) ** 2).sum()))


def ordered_checks(above: Runs, times: np.ndarray) -> list[Check]:
    """Check above kappa_c that the error of |z| is bounded, as in the Gibbs law, and that the angle diffuses."""
    n, number = above.n, len(above.z)
    second, deviation = finite_moments(n, ABOVE)
    square = np.abs(above.z[..., 0]) ** 2
    name = f"κ = {ABOVE:g} > κ_c, n = {n}"
    checks = [
        within(f"{name}: E|z|² from t = 8 on, Gibbs law", second, square[:, 8:].mean(1)),
        within(
            f"{name}: n Var |z|² from t = 8 on, Gibbs law",
            n * deviation**2,
            n * ((square[:, 8:] - second) ** 2).mean(1),
        ),
        stays(f"{name}: n Var |z|²", n * (square - second) ** 2, times),
    ]
    steps = np.diff(phase(above), axis=1)
    pairs = n * (steps.reshape(number, -1, 2).sum(-1) ** 2).mean(1) / 2
    return [*checks, within(f"{name}: n Var of the angle, per unit of time", wandering(ABOVE), pairs)]


CAPTION = (
    "Noisy Kuramoto tokens, initially independent samples of a stationary law of their mean field. Left: below κ_c, n times the "
    "mean square error of z stays bounded (dots: tokens with standard errors, line: theory). Right: above κ_c it grows without "
    "bound because the direction of z diffuses; the error of |z| stays bounded (dotted: n Var |z| of the Gibbs law)."
)


def draw(times, squares, size, above):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = np.unique(np.geomspace(1, len(times) - 1, 16).astype(int))
    line = np.geomspace(0.8, times[-1], 200)
    dots(left, times[shown], squares[:, shown], BLUE, "tokens")
    left.plot(line, fluctuation(size, BELOW, line), color=ORANGE, label="theory")
    left.axhline(1 / (1 - BELOW / 2), color="0.5", ls=":", lw=1, label="1/(1 − κ/2)")
    left.set(title=f"κ = {BELOW:g}", xlabel="time t", ylabel="n E|z|²", xscale="log", ylim=(0, 3))
    left.legend(frameon=False, loc="lower right")
    r, n = ordered_law(ABOVE)[0], above.n
    z, radial = above.z[..., 0], n * finite_moments(n, ABOVE)[1] ** 2 / (4 * r * r)
    dots(right, times[shown], n * np.abs(z - r)[:, shown] ** 2, BLUE, "n E|z − r|²")
    dots(right, times[shown], n * (np.abs(z) - r)[:, shown] ** 2, GREEN, "n E(|z| − r)²")
    turned = first_variance(ABOVE) + wandering(ABOVE) * line
    right.plot(line, r**2 * turned + radial, color=ORANGE, label="r² n Var(angle) + n Var|z|")
    right.axhline(radial, color=GREEN, ls=":", lw=1)
    right.set(title=f"κ = {ABOVE:g}", xlabel="time t", xscale="log", yscale="log")
    right.legend(frameon=False, fontsize=8)
    return figure


def dots(ax, times, values, color, label):
    """Plot means over runs, with standard errors."""
    error = values.std(0) / math.sqrt(len(values))
    ax.errorbar(times, values.mean(0), error, fmt="o", ms=3, lw=1, color=color, label=label)


CLAIM = Claim(
    id="chaos_in_time",
    section="Noise",
    title="Noisy tokens follow their mean field for all times, up to rotation",
    statement="Below κ_c = 2, noisy Kuramoto tokens follow their mean field uniformly in time: n E|z|² rises from 1 to "
    "1/(1 − κ/2) and stays there. Above κ_c only |z| follows it for all times. The direction of z diffuses, with "
    "n Var = 2t/(κ(1 − I₀(κr)⁻²)), so the error is bounded for all times only up to rotation.",
    source="Rigollet, The mean-field dynamics of Transformers, §3; Bertini, Giacomin, Poquet 2014 (diffusion of the angle); the "
    "rest derived here",
    measure=measure,
)
