"""The number of modes of a kernel density estimate of random points."""

import numpy as np

from ...observables.kernel_density import kde_modes
from ...theory.mode_counts import kde_modes_circle, kde_modes_line
from ..claim import Claim, Evidence, close

ON_CIRCLE = 3000
CIRCLE = (2.0, 5.0, 20.0, 100.0)
LINE = (100, 1000, 10_000, 100_000)  # n, and beta = n


def counted(draw_points, beta: float, draws: int, geometry: str) -> tuple[float, float]:
    """Return the mean number of modes over independent draws, and its standard error."""
    numbers = [len(kde_modes(draw_points(np.random.default_rng(k)), beta, geometry)) for k in range(draws)]
    return float(np.mean(numbers)), float(np.std(numbers) / np.sqrt(draws))


def power_of_log(beta: np.ndarray, modes: np.ndarray) -> float:
    """Return p in `modes = C sqrt(beta) (log beta)^p`, by least squares."""
    return float(np.polyfit(np.log(np.log(beta)), np.log(modes / np.sqrt(beta)), 1)[0])


def measure(quick: bool) -> Evidence:
    checks, more = [], 1 if quick else 10
    uniform = lambda rng: rng.uniform(0, 2 * np.pi, ON_CIRCLE)  # noqa: E731
    circle = {beta: counted(uniform, beta, 50 * more, "circle") for beta in CIRCLE}
    for beta, (mean, error) in circle.items():
        what = f"circle, β = {beta:g}: mean number of modes of {ON_CIRCLE} uniform points"
        checks.append(close(what, kde_modes_circle(beta), mean, atol=4 * error))
    checks.append(
        close("circle, β = 100: √(3β/2) against the exact mean", 150**0.5, kde_modes_circle(100.0), rtol=1e-3)
    )

    line = {}
    for n in LINE:
        draws = max(2, min(60, 30_000 // n)) * more
        line[n] = counted(lambda rng, n=n: rng.standard_normal(n), float(n), draws, "line")
        what = f"line, n = β = {n}: mean number of modes (Kac–Rice formula)"
        checks.append(close(what, kde_modes_line(n, n), line[n][0], rtol=0.05, atol=4 * line[n][1]))
    growth, ratio = line[LINE[-1]][0] / line[LINE[1]][0], LINE[-1] / LINE[1]
    logs = np.log(LINE[-1]) / np.log(LINE[1])
    what = f"line: growth of the number of modes from n = β = {LINE[1]} to {LINE[-1]}"
    checks.append(close(f"{what}, as √(β log β)", np.sqrt(ratio * logs), growth, rtol=0.1))
    checks.append(close(f"{what}, as printed, √β log β", np.sqrt(ratio) * logs, growth, rtol=0.1, printed=True))
    beta = np.geomspace(1e20, 1e60, 9)
    power = power_of_log(beta, np.array([kde_modes_line(b, b) for b in beta]))
    what = "line: power of log β that multiplies √β, Kac–Rice formula, n = β from 1e20 to 1e60"
    checks.append(close(what, 0.5, power, atol=0.03))
    checks.append(close(f"{what}, as printed", 1.0, power, atol=0.03, printed=True))
    return Evidence(tuple(checks), draw(circle, line), CAPTION)


CAPTION = (
    "Mean number of modes divided by √β. Uniform points on the circle: exact mean (line) and √(3/2) (dotted). n = β "
    "standard Gaussian points on the line: Kac–Rice formula (line); dashed and dash-dotted, √(β log β) and √β log β through "
    "the first dot. The logarithm is hardly visible: √(log β) grows by 29 % from 10³ to 10⁵."
)


def draw(circle, line):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    beta = np.geomspace(1, 200, 60)
    left.plot(beta, [kde_modes_circle(b) / b**0.5 for b in beta], color="#0072B2")
    left.axhline(1.5**0.5, color="0.4", ls=":", lw=1)
    beta = np.geomspace(LINE[0], LINE[-1], 30)
    right.plot(beta, [kde_modes_line(b, b) / b**0.5 for b in beta], color="#0072B2")
    first = line[LINE[0]][0] / LINE[0] ** 0.5
    for power, style, label in ((0.5, "--", "√(β log β)"), (1.0, "-.", "√β log β")):
        right.plot(beta, first * (np.log(beta) / np.log(beta[0])) ** power, style, color="0.4", lw=1, label=label)
    for ax, counts, title in ((left, circle, "circle"), (right, line, "line, n = β")):
        x = np.array(list(counts), float)
        mean, error = np.array(list(counts.values())).T
        ax.errorbar(x, mean / x**0.5, 2 * error / x**0.5, fmt="o", ms=4.5, color="#D55E00")
        ax.set(xscale="log", xlabel="precision β", ylabel="modes / √β", title=title, ylim=(0, None))
    right.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="kde_mode_counts",
    section="Metastability",
    title="The number of modes of a kernel density estimate",
    statement="The kernel density Σ_j e^{β cos(θ-θ_j)} of many uniform points on the circle has √((3β/2) I_0(2β)/I_1(2β) - 1/2) "
    "modes on average, about √(3β/2) for large β, without a logarithm. For n Gaussian points on the line and β a power of n, the "
    "number of modes of the Gaussian KDE of precision β is of order √(β log β). The survey prints √β log β.",
    source="Rigollet, The mean-field dynamics of Transformers, §5.3; Geshkovski, Rigollet, Sun 2024 (On the number of modes of "
    "Gaussian kernel density estimators); the exact mean on the circle derived here",
    measure=measure,
)
