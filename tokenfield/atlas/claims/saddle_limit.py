"""The limit of large beta: which clusters merge, where and when, compared with runs at growing beta."""

import math

import numpy as np
from scipy.integrate import quad

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close, equal

MASSES = np.array([0.35, 0.15, 0.2, 0.1, 0.2])
ANGLES = np.array([[0.0, 0.0], [0.5, 0.1], [1.4, -0.3], [0.3, 0.9], [2.4, 0.5]])  # longitude, latitude
HEADS = {"softmax": tkf.Softmax, "unnormalized": tkf.Unnormalized}


def start() -> tkf.Tokens:
    p, q = ANGLES.T
    return tkf.Tokens(np.stack([np.cos(p) * np.cos(q), np.sin(p) * np.cos(q), np.sin(q)], axis=1), MASSES)


def meeting_share(angle: float, masses: tuple[float, float], beta: float) -> float:
    """Return the fraction of the angle that the first of two softmax clusters has covered when they meet, at finite beta.

    The ratio of the speeds is `m_j/(m_i E + m_j)` to `m_i/(m_j E + m_i)`, `E = e^{beta(1 - cos a)}`, a the remaining angle.
    """
    i, j = masses

    def share(a):
        small = math.exp(-beta * (1 - math.cos(a)))
        first, second = j / (i + j * small), i / (j + i * small)
        return first / (first + second)

    return quad(share, 0, angle, epsabs=0, epsrel=1e-12, limit=500, points=[min(5 * beta**-0.5, angle)])[0] / angle


def meetings(run) -> list[np.ndarray]:
    """Return the positions of the clusters just after each merge."""
    count = run.dataset["cluster"].values.max(axis=1)
    after = [k for k in range(1, len(count)) if count[k] < count[k - 1]]
    merges = [event.detail["tokens"][0] for event in run.events if event.kind == "merge"]
    return [run.dataset["x"].values[k, token] for k, token in zip(after, merges, strict=True)]


def measure(quick: bool) -> Evidence:
    betas = np.array([50.0, 200.0, 800.0] if quick else [25.0, 50, 100, 200, 400, 800, 1600])
    checks, places, exponents = [], {}, {}
    for name, head in HEADS.items():
        limit = tkf.theory.saddle_to_saddle(start(), name)
        runs = []
        for beta in betas:
            model = tkf.Transformer(
                head(beta, log_unit=0.0) if name == "unnormalized" else head(beta), norm=tkf.PostLN()
            )
            runs.append(tkf.simulate(model, start(), math.inf, method="coarsen", progress=False))
        merges = [[event.detail for event in run.events if event.kind == "merge"] for run in runs]
        same = sum([tuple(m["tokens"]) for m in found] == [step.tokens for step in limit] for found in merges)
        checks.append(equal(f"{name}: number of runs whose clusters merge in the order of the limit", len(runs), same))
        there = np.array([[np.linalg.norm(x - s.place) for x, s in zip(meetings(r), limit, strict=True)] for r in runs])
        places[name] = there.max(axis=1)
        shift = betas if name == "unnormalized" else 0  # speeds of USA have a factor e^beta
        late = np.array([[m["log_time"] for m in found] for found in merges]) + np.reshape(shift, (-1, 1))
        gaps = np.abs(late / betas[:, None] - [step.exponent for step in limit])
        exponents[name] = gaps.max(axis=1)
        which, gap = ("first merge", gaps[:, 0]) if name == "softmax" else ("all merges", exponents[name])
        worst = float((gap * betas / np.log(betas)).max())
        checks.append(at_most(f"{name}, {which}: |log T/β - (1-ρ)|, in units of (log β)/β", 2.0, worst))
        if name == "softmax":
            slope = np.polyfit(np.log(betas), np.log(places[name]), 1)[0]
            checks.append(
                close("softmax: distance to the meeting points of the limit, power of β", -0.5, slope, atol=0.1)
            )
            worst = float((exponents[name] / (np.log(betas) / betas + betas**-0.5)).max())
            what = "softmax, all merges: |log T/β - (1-ρ)|, in units of (log β)/β + β^(-1/2)"
            checks.append(at_most(what, 2.0, worst))
            first = limit[0]
            angle = math.acos(first.cosine)
            far = betas >= 100  # there the pull of the third cluster on this pair is negligible
            expected = [angle * meeting_share(angle, first.masses, beta) for beta in betas[far]]
            i = start().x[first.tokens[0]]
            ends = [meetings(run)[0] for run, there in zip(runs, far, strict=True) if there]
            moved = [2 * math.asin(np.linalg.norm(end - i) / 2) for end in ends]
            k = int(np.argmax(np.abs(np.subtract(moved, expected))))
            what = f"softmax, β = {betas[far][k]:g}: angle covered by the first token until it meets the second, by quadrature"
            checks.append(close(what, expected[k], moved[k], rtol=1e-6))
        else:
            what = f"unnormalized, β = {betas[-1]:g}: largest distance to the meeting points of the limit"
            checks.append(at_most(what, 1e-9, places[name][-1]))
    return Evidence(tuple(checks), draw(betas, places, exponents), CAPTION)


CAPTION = (
    "Five clusters of unequal masses on the sphere, run until one is left, at growing β. Left: the largest distance between the "
    "points where clusters meet and those of the limit (for unnormalized attention it is exponentially small). Right: the "
    "largest difference between log T/β and 1-ρ over all merges."
)


def draw(betas, places, exponents):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, data in ((left, places), (right, exponents)):
        for name, color, mark in (("softmax", "#0072B2", "o-"), ("unnormalized", "#D55E00", "s-")):
            axes.loglog(betas, data[name], mark, color=color, ms=4, lw=1.2, label=name)
        axes.set(xlabel="β", ylim=(1e-4, 1))
    left.loglog(betas, 1.4 * places["softmax"][0] * (betas / betas[0]) ** -0.5, "k:", lw=1)
    right.loglog(
        betas, 0.7 * exponents["unnormalized"][-1] * np.log(betas) / betas * betas[-1] / np.log(betas[-1]), "k:", lw=1
    )
    left.annotate("β$^{-1/2}$", (betas[1], 1.4 * places["softmax"][1]), (0, 8), textcoords="offset points")
    right.annotate("(log β)/β", (betas[1], 0.5 * exponents["unnormalized"][1]), (0, -14), textcoords="offset points")
    left.set_ylabel("distance of meeting points")
    right.set_ylabel("|log T/β - (1-ρ)|")
    right.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="saddle_limit",
    section="Metastability",
    title="As β grows, runs follow the saddle-to-saddle limit",
    statement="As β → ∞ only the closest pair of clusters moves. Which pairs merge, where, and the exponents lim log(T)/β = 1-ρ "
    "follow from masses and positions alone. Runs at finite β have the same order of merges. Meeting points of softmax clusters of "
    "unequal masses are off by order β^(-1/2), because near contact each cluster sees both masses; so are the exponents of later "
    "merges. Other exponents are off by order (log β)/β.",
    source="Geshkovski, Koubbi, Polyanskiy, Rigollet 2024 (Dynamic metastability in the self-attention model); Rigollet, "
    "The mean-field dynamics of Transformers, Theorem 6, with masses and the current inner product; the β^(-1/2) is measured here",
    measure=measure,
)
