"""Lost in the middle: the position to which the last token responds least, and when."""

import numpy as np

from ... import theory
from ..claim import Claim, Evidence, at_least, at_most, close
from ..linearized import near_one_cluster, richardson

BETA = 2.0
SLOPE, STEEP = 1.0, 3.0
TAUS = (0.25, 0.5, 0.75)
SHOWN = (0.5, SLOPE, np.log(4), 2.0, STEEP)
COLORS = ("#56B4E9", "#0072B2", "black", "#E69F00", "#D55E00")


def lowest(row: np.ndarray) -> float:
    """Return the position of the least response among all tokens but the last: the minimum of a polynomial through 7 points."""
    values, n, reach = row[:-1], len(row), np.arange(-3, 4)
    j = int(np.argmin(values))
    if not 3 <= j < len(values) - 3:
        return (j + 1) / n
    slope = np.polynomial.Polynomial.fit(reach, values[j + reach], 6, domain=[-1, 1]).deriv()
    extrema = slope.roots()
    return (j + 1 + float(extrema[np.abs(extrema).argmin()].real)) / n


def measure(quick: bool) -> Evidence:
    sizes, tolerance = ((32, 64), 5e-3) if quick else ((64, 128, 256, 512), 1e-5)
    runs = {n: near_one_cluster(n, BETA) for n in sizes}
    last = runs[sizes[-1]]
    checks, dots = [], {SLOPE: [], STEEP: []}
    for tau in TAUS:
        t = theory.lost_time(tau, SLOPE, 1.0)
        found = [lowest(run(SLOPE, t)) for run in runs.values()]
        dots[SLOPE].append((t, found[-1]))
        text = f"λ = {SLOPE:g}, t = {t:.4f}: least response, runs with {sizes[0]} to {sizes[-1]} tokens extrapolated"
        checks.append(close(text, tau, float(richardson(found)), atol=tolerance))
    end = theory.recency_ends(SLOPE, 1.0)
    rise = {}
    for factor in (0.95, 1.05):
        row = last(SLOPE, factor * end)
        rise[factor] = row[-2] / row[-2 - len(row) // 16] - 1
    checks += [
        at_least(
            f"λ = {SLOPE:g}: rise of the response toward the last token at 0.95 of the time when recency ends",
            0,
            rise[0.95],
        ),
        at_most(f"λ = {SLOPE:g}: the same at 1.05 of that time", 0, rise[1.05]),
    ]
    path = np.array(lost(STEEP))
    jumps = path[-1, 1]
    for factor in (0.7, 0.97):
        found = [lowest(run(STEEP, factor * jumps)) for run in runs.values()]
        dots[STEEP].append((factor * jumps, found[-1]))
        predicted = float(np.interp(factor * jumps, path[:, 1], path[:, 0]))
        text = f"λ = {STEEP:g}: position of least response at {factor:g} of the time of the jump, extrapolated"
        checks.append(close(text, predicted, float(richardson(found)), atol=tolerance))
    dots[STEEP].append((1.05 * jumps, lowest(last(STEEP, 1.05 * jumps))))
    checks.append(at_least(f"λ = {STEEP:g}: least response at 1.05 of that time", 0.98, dots[STEEP][-1][1]))
    return Evidence(tuple(checks), draw(dots), CAPTION)


def lost(slope: float) -> list[tuple[float, float]]:
    """Return the lost positions, with their times."""
    found = []
    for tau in np.linspace(0.002, 0.999, 998):
        try:
            found.append((float(tau), theory.lost_time(tau, slope, 1.0)))
        except ValueError:  # this position is never lost
            break
    return found


CAPTION = (
    "The position to which the last token responds least, against a t, for ALiBi slopes λ: theory (lines), derivatives of "
    "runs linearized at one cluster, where a = 1 (dots). For λ > log 4 the position jumps to the end (dotted)."
)


def draw(dots):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    ax = figure.subplots()
    for slope, color in zip(SHOWN, COLORS, strict=True):
        path = np.array(lost(slope))
        label = "log 4" if slope == np.log(4) else f"{slope:g}"
        ax.plot(path[:, 1], path[:, 0], color=color, lw=1.3, label=f"λ = {label}")
        ax.plot([path[-1, 1]] * 2, [path[-1, 0], 1], color=color, lw=1, ls=":")
        ax.plot([path[-1, 1], 2.6], [1, 1], color=color, lw=1.3)
        for t, tau in dots.get(slope, ()):
            ax.plot(t, tau, "o", ms=5, color=color)
    ax.axhline(0.5, color="0.8", lw=0.8, zorder=0)
    ax.set(xlabel="a t", ylabel="position lost", xlim=(0, 2.6), ylim=(0, 1.03))
    figure.legend(*ax.get_legend_handles_labels(), frameon=False, loc="outside right upper")
    return figure


CLAIM = Claim(
    id="lost_middle",
    section="Causal attention",
    title="The lost position moves from the first through the middle to the last",
    statement="Under causal attention with ALiBi of slope λ, the position τ to which the last token responds least obeys "
    "√(c/Y) I_2(2√(cY))/I_1(2√(cY)) = 1 - e^{-λτ}, c = a t, Y = log((e^λ - 1)/(e^{λτ} - 1)). It moves away from the first token. "
    "For λ ≤ log 4 it reaches the last token at a t = 2(1 - e^{-λ}), when recency ends; for a larger slope it jumps to the last "
    "token from a position in between.",
    source="derived here; the effect in trained models: Liu et al. 2023 (Lost in the middle)",
    measure=measure,
)
