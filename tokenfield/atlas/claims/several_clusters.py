"""Large beta: a density with a nonzero mean that does not collapse to one point."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close, equal

MASS, NARROW, TILT, NEAR = 0.7, 20.0, 0.3, 0.1
THRESHOLD = 0.5 * np.log(MASS / (1 - MASS))
SAVED = 121
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def density(a: np.ndarray) -> np.ndarray:
    """Return two bumps `exp(20 cos)`, with mass 0.7 at e (angle 0) and 0.3 at -e; even in the angle, mean about 0.4 e."""
    return MASS * np.exp(NARROW * (np.cos(a) - 1)) + (1 - MASS) * np.exp(NARROW * (-np.cos(a) - 1))


def bumps(n: int, width: float = 1.0, tilt: float = 0.0) -> tkf.Tokens:
    """Return n tokens at the quantiles of the two bumps, scaled by `width`, the small bump rotated by `tilt`."""
    from scipy.stats import vonmises

    large = round(MASS * n)
    at = lambda count: vonmises.ppf((np.arange(count) + 0.5) / count, NARROW)  # noqa: E731
    even = lambda a: width * (a - a[::-1]) / 2  # noqa: E731, symmetric to rounding
    return tkf.circle_tokens(np.concatenate([even(at(large)), np.pi + tilt + even(at(n - large))]))


def simulated(kernel, beta: float, start, t1: float) -> tkf.Trajectory:
    model = tkf.Transformer(kernel(beta=beta), norm=tkf.PostLN())
    return tkf.simulate(model, start, t1, save_at=SAVED, rtol=1e-10, atol=1e-11, method="tsit5", progress=False)


def contraction(beta: float, kernel) -> tuple[float, float]:
    """Return the contraction rates of the large and of the small cluster; the small one dissolves if its rate is negative.

    The rate is own mass times e^beta minus the other's times e^{-beta}; under SA divided by their sum, which gives a tanh.
    """
    if kernel is tkf.Softmax:
        return float(np.tanh(beta + THRESHOLD)), float(np.tanh(beta - THRESHOLD))
    return MASS * np.exp(beta) - (1 - MASS) * np.exp(-beta), (1 - MASS) * np.exp(beta) - MASS * np.exp(-beta)


def measured_contraction(beta: float, kernel, n: int) -> tuple[float, float]:
    """Return the same from a run of very narrow bumps."""
    t1 = 1 / max(map(abs, contraction(beta, kernel)))
    y = simulated(kernel, beta, bumps(n, width=1e-5), t1).dataset["x"].values[[0, -1], :, 1]
    sizes = [np.linalg.norm(part, axis=1) for part in np.split(y, [round(MASS * n)], axis=1)]
    return tuple(float(np.log(size[0] / size[1]) / t1) for size in sizes)


def meeting(apart: float, beta: float) -> float:
    """Return the time in which the angle between two point masses falls from `apart` to 0.1 radian."""
    return tkf.theory.pair_merge_time(np.cos(apart), np.cos(NEAR), beta, masses=(MASS, 1 - MASS))


def gap(run: tkf.Trajectory, n: int) -> np.ndarray:
    """Return the angle between the means of the two bumps at each time."""
    x = run.dataset["x"].values
    one, two = (part.mean(axis=1) for part in np.split(x, [round(MASS * n)], axis=1))
    return np.abs(np.arctan2(one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0], (one * two).sum(axis=1)))


def crossing(times: np.ndarray, apart: np.ndarray) -> float:
    """Return the time at which the angle falls to 0.1, by a cubic spline of its logarithm."""
    from scipy.interpolate import CubicSpline

    k = int(np.argmax(apart < NEAR))
    part = slice(k - 5, k + 5)
    return float(CubicSpline(times[part], np.log(apart[part] / NEAR)).roots(extrapolate=False)[0])


def measure(quick: bool) -> Evidence:
    n, checks, rates = 60 if quick else 1000, [], {}
    for kernel in (tkf.Softmax,) if quick else (tkf.Softmax, tkf.Unnormalized):
        for beta in (0.2, 1.0) if quick else (0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0):
            found, true = measured_contraction(beta, kernel, 60), contraction(beta, kernel)
            rates[kernel.__name__, beta] = found
            name = f"{'SA' if kernel is tkf.Softmax else 'USA'}, β = {beta:g}"
            for size, one, other in zip(("large", "small"), true, found, strict=True):
                checks.append(close(f"{name}: rate of contraction of the {size} cluster", one, other, rtol=1e-6))
    beta, wait = 2.0, meeting(np.pi - TILT, 2.0)
    slow = simulated(tkf.Softmax, 0.1, bumps(n), 2 * wait)
    run = simulated(tkf.Softmax, beta, bumps(n), 2 * wait)
    end = tkf.clusters(run.final)
    sizes = [round(MASS * n), n - round(MASS * n)]
    checks += [
        equal(
            f"SA, β = 0.1, symmetric start: tokens in each cluster at t = {2 * wait:.0f}",
            [n],
            tkf.clusters(slow.final).sizes.tolist(),
        ),
        equal(f"SA, β = 2, symmetric start: tokens in each cluster at t = {2 * wait:.0f}", sizes, end.sizes.tolist()),
        close("the same: angle between the clusters, in units of π", 1.0, gap(run, n)[-1] / np.pi, atol=1e-9),
        close("the same: order parameter, 2·0.7 - 1", 2 * MASS - 1, tkf.order_parameter(run.final), atol=1e-9),
    ]
    tilted = simulated(tkf.Softmax, beta, bumps(n, tilt=TILT), 2 * wait)
    apart, points = gap(tilted, n), int(np.searchsorted(tilted.times, 10.0))
    since, reached = tilted.times[points], crossing(tilted.times, apart)
    merge = since + meeting(apart[points], beta)
    checks += [
        equal(
            "small bump rotated by 0.3: tokens in each cluster at that time",
            [n],
            tkf.clusters(tilted.final).sizes.tolist(),
        ),
        close(f"the same: time of angle 0.1, against point masses from t = {since:.3g} on", merge, reached, rtol=1e-3),
    ]
    if not quick:
        checks += against_density(beta)
    return Evidence(tuple(checks), draw(run, tilted, slow, rates, merge), CAPTION)


def against_density(beta: float) -> list:
    """Return checks of the density itself against 1000 tokens, up to a time at which 128 modes still resolve the bumps."""
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    start = tkf.CircleDensity.from_function(density, 128)
    run = tkf.simulate(model, start, 1.0, save_at=25, rtol=1e-11, atol=1e-13, progress=False)
    c = run.dataset["coefficients"].values[-1, 0] / np.sqrt(2)
    tokens = tkf.simulate(model, bumps(1000), 1.0, save_at=25, rtol=1e-9, atol=1e-11, progress=False)
    x = tokens.dataset["x"].values[-1] @ [1, 1j]
    odd = np.abs(run.dataset["coefficients"].values[:, 1]).max()
    checks = [at_most("density: largest odd coefficient (0 by symmetry)", 1e-9, odd)]
    checks += [
        close(f"density at t = 1: ∫ cos {k}θ dμ, against 1000 tokens", float((x**k).real.mean()), c[k], atol=2e-4)
        for k in (1, 2, 3)
    ]
    return checks


CAPTION = (
    "Left: angles of tokens at quantiles of two bumps, masses 0.7 at 0 and 0.3 at π, SA: two clusters at β = 2 (blue), "
    "one at β = 0.1 (orange), and eventually one at β = 2 if the small bump is rotated by 0.3 (green; dotted: predicted "
    "merge). Right: contraction rate of the small cluster, tanh(β - β_c) (line) and measured (dots): below β_c it dissolves."
)


def draw(run, tilted, slow, rates, merge):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
    names = ("β = 0.1", "β = 2, one bump rotated", "β = 2")
    for each, color, name in zip((slow, tilted, run), (ORANGE, GREEN, BLUE), names, strict=True):
        x = each.dataset["x"].values
        x = x[:, :: max(x.shape[1] // 60, 1)]
        angle = np.unwrap(np.arctan2(x[..., 1], x[..., 0]) % (2 * np.pi), axis=0)
        angle = np.where(angle[0] > 1.75 * np.pi, angle - 2 * np.pi, angle)
        left.plot(each.times, angle, color=color, lw=0.6)
        left.plot([], [], color=color, label=name)
    left.axvline(merge, color="0.3", ls=":", lw=1)
    left.set(xlabel="time t", ylabel="angle", xlim=(0, run.times[-1]), ylim=(-0.8, 2 * np.pi + 0.2))
    left.set_yticks([0, np.pi, 2 * np.pi], ["0", "π", "2π"])
    fine = np.linspace(0, 3.1, 200)
    right.plot(fine, np.tanh(fine - THRESHOLD), color="black", lw=1)
    dots = [(beta, found[1]) for (name, beta), found in rates.items() if name == "Softmax"]
    right.plot(*np.transpose(dots), "o", color=BLUE, ms=5)
    right.axhline(0, color="0.7", lw=0.8, zorder=0)
    right.axvline(THRESHOLD, color="0.3", ls=":", lw=1)
    right.annotate("$β_c$", (THRESHOLD, 0.9), (4, 0), textcoords="offset points")
    right.set(xlabel="β", ylabel="contraction rate, small cluster", xlim=(0, 3.1), ylim=(-0.5, 1.05))
    figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside upper left", ncols=3)
    return figure


CLAIM = Claim(
    id="several_clusters",
    section="Clustering on the sphere",
    title="Large β: a density with a nonzero mean can converge to two clusters",
    statement="Collapse to one point, proved for small β, can fail for large β: there is a start on the circle from which "
    "the mean field converges to several clusters. Ours is even in the angle: narrow bumps of masses m at e and 1-m at -e, with "
    "mean (2m-1)e. The flow keeps this symmetry, so the bumps cannot move toward each other. By linearization the small one "
    "contracts if and only if (1-m)e^β > m e^{-β}, that is β > β_c = ½ log(m/(1-m)) (under SA at the rate tanh(β - β_c)): above "
    "β_c two clusters persist forever, below it the small one dissolves and joins the other. A run of finite length can show "
    "these rates, and two clusters long after they would have merged without the symmetry. If one bump is rotated, the clusters "
    "merge at the predicted time: such starts are exceptional.",
    source="Rigollet, The mean-field dynamics of Transformers, remark after Theorem 5; Chen, Lin, Polyanskiy, Rigollet 2025 "
    "(the start here is our own)",
    measure=measure,
)
