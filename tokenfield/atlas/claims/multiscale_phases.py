"""Time scales of alignment, clustering and pairing: independent of beta, linear in beta, exponential in beta."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close, equal
from ..fits import slope

COLORS = {"alignment": "#009E73", "clustering": "#0072B2", "pairing": "#D55E00"}
WIDE, NARROW = 0.12, 0.04  # times are measured while the standard deviation of a bump falls between these values
ANGLE = 1.9  # angle between the two bumps
SECOND = 0.5  # eigenvalue of A/beta on the axis; it is 1 on the plane of the equator
SHAPE = np.diag([1.0, 1.0, SECOND])
SPREAD_BETA = 120.0


class Times(NamedTuple):
    """Times at one beta: for the widths across and along the equator to shrink, and log of the merge time."""

    alignment: float
    clustering: float
    pairing: float


@lru_cache(maxsize=1)
def bump() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return longitudes, latitudes and weights of a Gaussian bump on a grid (trapezoidal rule)."""
    grid = np.linspace(-4.5, 4.5, 27)
    along, across = np.meshgrid(WIDE * grid, WIDE * grid, indexing="ij")
    weights = np.exp(-(along**2 + across**2) / (2 * WIDE**2)).ravel()
    return along.ravel(), across.ravel(), weights / weights.sum()


def crossing(times: np.ndarray, widths: np.ndarray) -> float:
    """Return the time at which the width is NARROW, interpolating its logarithm linearly."""
    k = int(np.argmax(widths < NARROW))
    return float(np.interp(-math.log(NARROW), -np.log(widths[k - 1 : k + 1]), times[k - 1 : k + 1]))


def measured(beta: float) -> Times:
    """Run two bumps on the equator of the 2-sphere until they are clusters, then run the clusters until they merge.

    On the equator attention is isotropic, so the last part can use `method="coarsen"`.
    """
    along, across, weights = bump()
    a = np.concatenate([along, along + ANGLE])
    b = np.tile(across, 2)
    tokens = tkf.Tokens(
        np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], axis=1), np.tile(weights, 2) / 2
    )
    model = tkf.Transformer(tkf.Softmax(A=beta * SHAPE), norm=tkf.PostLN())
    end = 1.15 * tkf.theory.collapse_time(WIDE, NARROW, beta)
    run = tkf.simulate(model, tokens, end, save_at=120, rtol=1e-6, progress=False)
    first, second = np.split(run.dataset["x"].values, 2, axis=1)
    spread = lambda angles: np.sqrt(angles**2 @ weights)  # noqa: E731
    across, along = spread(np.arcsin(first[..., 2])), spread(np.arctan2(first[..., 1], first[..., 0]))
    centers = [np.einsum("nk,n->k", part[-1], weights)[:2] for part in (first, second)]
    flat = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    pair = tkf.Tokens(np.stack([center / np.linalg.norm(center) for center in centers]))
    merged = tkf.simulate(flat, pair, math.inf, method="coarsen", progress=False).events[0].detail["log_time"]
    return Times(crossing(run.times, across), crossing(run.times, along), merged)


def predicted(beta: float) -> Times:
    """Return the same times from theory alone."""
    merge = tkf.theory.pair_merge_time(math.cos(ANGLE), 1 - math.log(2) / beta, beta, log=True)
    widths = WIDE, NARROW, beta
    return Times(tkf.theory.collapse_time(*widths, c=SECOND), tkf.theory.collapse_time(*widths), merge)


class WholeRun(NamedTuple):
    """Run from tokens spread over the 2-sphere: median distance from the plane, number of groups, log times of merges."""

    times: np.ndarray
    heights: np.ndarray
    groups: np.ndarray
    log_merges: np.ndarray

    def phases(self) -> dict[str, float]:
        """Return the log of the times at which tokens reach the plane, form clusters, and the first two clusters merge."""
        clustered = self.groups <= 1.5 * self.groups[-1]
        found = {
            "alignment": math.log(self.times[np.argmax(self.heights < 0.1)]),
            "clustering": math.log(self.times[np.argmax(clustered)]),
            "pairing": float(self.log_merges.min()),
        }
        return dict(sorted(found.items(), key=lambda pair: pair[1]))


def whole_run(beta: float, n: int) -> WholeRun:
    """Run spread-out tokens until they form clusters near the equator, then these clusters, coarsened, until one is left."""
    model = tkf.Transformer(tkf.Softmax(A=beta * SHAPE), norm=tkf.PostLN())
    times = np.geomspace(0.1, 1.5 * beta, 80)
    run = tkf.simulate(model, tkf.uniform_sphere(n, 3, seed=1), times[-1], save_at=times, rtol=1e-6, progress=False)
    x = run.dataset["x"].values
    groups = [np.asarray(labels(each)) for each in x]
    last = groups[-1]
    centers = np.stack([x[-1][last == k].mean(0) for k in range(last.max() + 1)])
    near, masses = np.abs(centers[:, 2]) < 0.2, np.bincount(last) / n
    flat = centers[near, :2] / np.linalg.norm(centers[near, :2], axis=1, keepdims=True)
    clusters = tkf.Tokens(flat, masses[near] / masses[near].sum())
    pairs = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    events = tkf.simulate(pairs, clusters, math.inf, method="coarsen", progress=False).events
    merges = np.array([event.detail["log_time"] for event in events if event.kind == "merge"])
    count = np.array([each.max() + 1 for each in groups])
    return WholeRun(times, np.median(np.abs(x[..., 2]), axis=1), count, merges)


def labels(x: np.ndarray) -> np.ndarray:
    """Return group labels: tokens joined by chains of steps of at most 0.05 rad."""
    from scipy.sparse.csgraph import connected_components

    return connected_components(x @ x.T > math.cos(0.05), directed=False)[1]


def measure(quick: bool) -> Evidence:
    betas = np.array([50.0, 100, 200, 400]) if quick else np.array([50.0, 75, 100, 150, 200, 300, 400])
    found, exact = (Times(*np.array([times(beta) for beta in betas]).T) for times in (measured, predicted))
    run = whole_run(SPREAD_BETA, 300 if quick else 600)
    phases = ", ".join(
        phase.name for phase in tkf.theory.multiscale_phases(SPREAD_BETA * SHAPE, cosine=math.cos(ANGLE))
    )
    checks = [
        equal(
            f"from spread-out tokens, β = {SPREAD_BETA:g}: phases in the order in which they end",
            phases,
            ", ".join(run.phases()),
        )
    ]
    for name, allowed in (("alignment", 0.012), ("clustering", 0.004)):
        off = np.abs(getattr(found, name) / getattr(exact, name) - 1).max()
        checks.append(
            at_most(f"{name}: largest relative error of the time, β = {betas[0]:g} … {betas[-1]:g}", allowed, off)
        )
    checks.append(at_most("pairing: largest error of log T", 1e-6, np.abs(found.pairing - exact.pairing).max()))
    late = math.log(WIDE / NARROW) / (1 - SECOND)
    checks.append(at_most("alignment: largest time, at most log(w_0/w_1)/rate", late, found.alignment.max()))
    heat, fit = (WIDE**2 - NARROW**2) / 2, slope(betas, found.clustering)
    what = f"clustering: time per unit of β, (w_0² − w_1²)/2, {fit.interval}"
    checks.append(close(what, heat, fit.value, atol=max(fit.half, 0.005 * heat)))
    fit = slope(betas, found.pairing + np.log(betas))
    what = f"pairing: slope of log(β T) against β, 1 − ρ, {fit.interval}"
    checks.append(close(what, 1 - math.cos(ANGLE), fit.value, atol=max(fit.half, 1e-3)))
    checks += one_direction(betas)
    return Evidence(tuple(checks), draw(betas, found, run), CAPTION)


def one_direction(betas: np.ndarray):
    """Check one leading direction on the circle: alignment is followed by a collapse in a time of order log beta."""
    grid = np.linspace(-4.5, 4.5, 81)
    weights = np.exp(-(grid**2) / 2) / np.exp(-(grid**2) / 2).sum()
    start, narrow = tkf.Tokens(tkf.circle_tokens(WIDE * grid).x, weights), 1e-4
    times, exact = [], []
    for beta in betas:
        exact.append(tkf.theory.collapse_time(WIDE, narrow, beta, c=SECOND))
        model = tkf.Transformer(tkf.Softmax(A=beta * np.diag([1.0, SECOND])), norm=tkf.PostLN())
        run = tkf.simulate(model, start, 1.1 * exact[-1], save_at=200, rtol=1e-8, atol=1e-12, progress=False)
        x = run.dataset["x"].values
        widths = np.sqrt(np.arctan2(x[..., 1], x[..., 0]) ** 2 @ weights)
        times.append(float(np.interp(-math.log(narrow), -np.log(widths), run.times)))
    off = np.abs(np.array(times) / exact - 1).max()
    power = np.log1p((1 - SECOND) * betas * WIDE**2) / 2
    fit = slope(power, np.array(times))
    what = f"one leading direction: slope of the time in log(1 + (1−c)βw_0²)/2, c/(1−c), {fit.interval}"
    return [
        at_most("one leading direction: largest relative error of the time of collapse", 0.004, off),
        close(what, SECOND / (1 - SECOND), fit.value, atol=max(fit.half, 0.01)),
    ]


CAPTION = (
    "Left and middle: two bumps of tokens on the 2-sphere, A = β diag(1, 1, ½), V = I: the time in which a bump shrinks from "
    "w = 0.12 to 0.04 across the equator (alignment; dotted: its limit for large β) and along it (clustering), and the time until "
    "the two clusters merge (pairing). Dots: runs; lines: theory. Right: one run from spread-out tokens, β = 120: the median "
    "distance from the plane of the equator, and the number of groups of tokens; then (orange) merges of the clusters near the "
    "equator, without the few tokens that have stopped elsewhere."
)


def draw(betas, found: Times, run: WholeRun):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.2, 3.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    line = np.linspace(betas[0] / 2, betas[-1], 100)
    exact = Times(*np.array([predicted(beta) for beta in line]).T)
    for ax, names in ((left, ("alignment", "clustering")), (middle, ("pairing",))):
        for name in names:
            scale = math.log(10) if name == "pairing" else 1.0
            ax.plot(line, getattr(exact, name) / scale, color=COLORS[name], lw=1)
            ax.plot(betas, getattr(found, name) / scale, "o", ms=5, color=COLORS[name], label=name)
        ax.set(xlabel="β", xlim=(0, None), ylim=(0, None))
    left.axhline(
        math.log(WIDE / NARROW) / (1 - SECOND), color=COLORS["alignment"], ls=":", lw=1, label="alignment, β → ∞"
    )
    left.set(ylabel="time")
    middle.set(ylabel="log₁₀ of time")
    for ax in (left, middle):
        ax.legend(frameon=False)
    ends = np.sort(run.log_merges) / math.log(10)
    start = np.log10(run.times)
    right.plot(start, run.heights, color=COLORS["alignment"])
    right.set(xlabel="log₁₀ of time", ylabel="median distance from the plane", ylim=(0, None))
    right.yaxis.label.set_color(COLORS["alignment"])
    other = right.twinx()
    other.plot(start, run.groups, color=COLORS["clustering"])
    other.step(
        np.append(start[-1], ends), len(ends) + 1 - np.arange(len(ends) + 1), where="post", color=COLORS["pairing"]
    )
    other.set(yscale="log", ylabel="groups of tokens")
    other.set_yticks([1, 10, 100], labels=["1", "10", "100"])
    other.yaxis.label.set_color(COLORS["clustering"])
    right.set_xscale("symlog", linthresh=2)
    right.set_xlim(start[0], 1.3 * ends[-1])
    right.set_xticks([-1, 0, 1, 2, 10, 100], labels=["−1", "0", "1", "2", "10", "100"])
    return figure


CLAIM = Claim(
    id="multiscale_phases",
    section="Metastability",
    title="Alignment, clustering and pairing: three phases on three time scales",
    statement="If A = β on a leading plane and V = I, tokens go through three phases. They align with the plane in a time that "
    "stays bounded as β grows. There a bump of width w_0 shrinks to w_1 by the backward heat equation in a time "
    "β(w_0² − w_1²)/2 + log(w_0/w_1). Then clusters merge in pairs in a time of order e^{β(1−ρ)}. With one leading direction, "
    "clustering is replaced by a collapse in a time of order log β. If A = β everywhere, there is no alignment.",
    source="Bruno, Pasqualotto, Agazzi 2025; Rigollet, The mean-field dynamics of Transformers, §5; times derived here",
    measure=measure,
)
