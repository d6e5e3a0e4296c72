"""First phase at large beta: spread-out tokens align with the leading directions of VA, at a rate independent of beta."""

import math
from typing import NamedTuple

import numpy as np

import tokenfield as tkf

from ..claim import Check, Claim, Evidence, at_most, close
from ..fits import limit, power, slope

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
TIMES = np.linspace(0, 1, 5)
APART = 1e-3  # distance from u of the zero-weight tokens that measure the rates
TURNED_A = np.array([[1.0, 0.5], [0.0, 0.6]])
TURNED_V = np.array([[1.0, 0.0], [0.4, 0.7]])
SKEW_A = np.array([[1.0, 0.5, 0.0], [0.0, 0.6, 0.3], [0.2, 0.0, 0.7]])
SKEW_V = np.array([[1.0, 0.0, 0.1], [0.4, 0.7, 0.0], [0.0, -0.2, 0.8]])
CASES = {
    "circle, A symmetric, V = I": (np.diag([1.0, 0.5]), np.eye(2)),
    "circle, A and V not symmetric": (TURNED_A, TURNED_V),
    "sphere, A and V symmetric": (np.diag([1.0, 0.8, 0.6]), np.diag([1.0, 0.9, 0.5])),
    "sphere, A and V not symmetric": (SKEW_A, SKEW_V),
}


class Found(NamedTuple):
    """Results of runs at several beta: rms distance from the limit at the last time, and the complex rate of slowest decay."""

    betas: np.ndarray
    distances: np.ndarray
    rates: np.ndarray


def spread(d: int, longitudes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and weights of a quadrature: trapezoidal on the circle, Gauss–Legendre × trapezoidal on the 2-sphere."""
    a = 2 * np.pi * (np.arange(longitudes) + 0.5) / longitudes
    if d == 2:
        return np.c_[np.cos(a), np.sin(a)], np.full(len(a), 1 / len(a))
    t, w = np.polynomial.legendre.leggauss(len(a) // 2)
    r = np.sqrt(1 - t**2)[:, None]
    x = np.stack([r * np.cos(a), r * np.sin(a), np.broadcast_to(t[:, None], (len(t), len(a)))], axis=-1)
    return x.reshape(-1, 3), np.repeat(w / (2 * len(a)), len(a))


def model(beta: float, A: np.ndarray, V: np.ndarray) -> tkf.Transformer:
    return tkf.Transformer(tkf.Softmax(A=beta * A, V=V), norm=tkf.PostLN())


def measured(A: np.ndarray, V: np.ndarray, betas: np.ndarray, longitudes: int) -> Found:
    """Run spread-out tokens, with zero-weight tokens at and near the leading direction u.

    Differences of the latter follow the flow linearized at u: its propagator has the eigenvalues `e^{-rate t}`.
    """
    x, w = spread(len(A), longitudes)
    u = tkf.theory.alignment(A, V).basis[:, 0]
    tangent = np.linalg.svd(u[None])[2][1:]
    near = np.concatenate([[u], u + APART * tangent])
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    start = tkf.Tokens(np.concatenate([x, near]), np.concatenate([w, np.zeros(len(near))]))
    limit = tkf.theory.alignment_path(x, A, V, TIMES)[-1]
    distances, rates = [], []
    for beta in betas:
        run = tkf.simulate(model(beta, A, V), start, TIMES[-1], save_at=TIMES, rtol=1e-6, progress=False)
        end = run.dataset["x"].values[-1]
        distances.append(math.sqrt(w @ ((end[: len(x)] - limit) ** 2).sum(1)))
        change = (end[len(x) + 1 :] - end[len(x)]) @ tangent.T / APART
        slow = -np.log(np.linalg.eigvals(change) + 0j) / TIMES[-1]
        rates.append(slow[np.argmin(slow.real)])
    return Found(np.asarray(betas), np.array(distances), np.array(rates))


def checks_of(name: str, found: Found, exact: tkf.theory.Alignment) -> list[Check]:
    rate, distance = limit(found.betas, found.rates.real), power(found.betas, found.distances)
    what = f"{name}: rate for β → ∞, gap/|Au|, {rate.interval}"
    checks = [close(what, exact.rate, rate.value, atol=rate.half + APART)]
    if exact.frequency:
        turn = limit(found.betas, np.abs(found.rates.imag))
        what = f"{name}: frequency of the spiral, {turn.interval}"
        checks.append(close(what, exact.frequency, turn.value, atol=turn.half + APART))
    what = f"{name}: power of β in the distance from the limit, {distance.interval}"
    checks.append(close(what, -1.0, distance.value, atol=max(distance.half, 0.1 if len(exact.basis) == 3 else 0.05)))
    return checks


def drift() -> list[Check]:
    """Check the later phase, at beta = 100: the cluster moves from the leading direction of VA to that of V."""
    times = np.linspace(0, 30, 61)
    x = tkf.circle_tokens(np.linspace(-1, 2, 200))
    run = (
        tkf.simulate(model(100.0, TURNED_A, TURNED_V), x, times[-1], save_at=times, progress=False).dataset["x"].values
    )
    values, vectors = np.linalg.eig(TURNED_V)
    end = vectors[:, np.argmax(values)]
    mean = run.mean(1)
    off = np.abs(mean[:, 0] * end[1] - mean[:, 1] * end[0]) / np.linalg.norm(mean, axis=1)
    late = slice(30, 46)
    rate = slope(times[late], -np.log(off[late]))
    return [
        at_most("A and V not symmetric, t = 30: sine of the angle to the leading direction of V", 1e-3, off[-1]),
        close(
            f"the same: rate at which this sine decays, the spectral gap of V, {rate.interval}",
            float(np.ptp(values)),
            rate.value,
            rtol=0.01,
        ),
    ]


def measure(quick: bool) -> Evidence:
    checks, found = [], {}
    for name, (A, V) in CASES.items():
        sphere = len(A) == 3
        betas = np.array([20.0, 30, 40, 60] if sphere else [50.0, 100, 200, 400])
        if not quick:
            betas = np.append(betas, 120.0 if sphere else 800.0)
        found[name] = measured(A, V, betas, (48 if sphere else 700) if quick else (72 if sphere else 1500))
        checks += checks_of(name, found[name], tkf.theory.alignment(A, V))
    return Evidence((*checks, *drift()), draw(found), CAPTION)


CAPTION = (
    "Softmax attention, tokens spread over the circle or the sphere. Left: root mean square distance at t = 1 from the limit "
    "x' = P VAx/|Ax|; lines: 1/β. Right: measured rate of approach to the leading direction (dots) and gap/|Au| (lines)."
)


def draw(found):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    for color, (name, runs) in zip(COLORS, found.items(), strict=True):
        left.loglog(runs.betas, runs.distances, "o", ms=4, color=color, label=name)
        left.loglog(runs.betas, runs.distances[-1] * runs.betas[-1] / runs.betas, color=color, lw=0.8)
        right.semilogx(runs.betas, runs.rates.real, "o", ms=4, color=color)
        right.axhline(tkf.theory.alignment(*CASES[name]).rate, color=color, lw=0.8)
    left.set(xlabel="β", ylabel="distance from the limit")
    right.set(xlabel="β", ylabel="rate of alignment", ylim=(0, None))
    for ax in (left, right):
        ax.set_xticks([25, 50, 100, 200, 400], ["25", "50", "100", "200", "400"])
        ax.set_xticks([], minor=True)
    left.set_yticks([], minor=True)
    figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=8)
    return figure


CLAIM = Claim(
    id="alignment_phase",
    section="Metastability",
    title="Spread-out tokens first align with the leading directions of VA",
    statement="At large β, tokens spread over the sphere move by x' = P_x VAx/|Ax| + O(1/β), whether or not A and V are "
    "symmetric. They align with the eigenvector u of VA whose eigenvalue λ_1 has the largest real part, at the rate "
    "(λ_1 − Re λ_2)/|Au|, which does not depend on β. Once they form a cluster, it moves by x' = P_x Vx to the leading direction "
    "of V.",
    source="Bruno, Pasqualotto, Agazzi 2025; Rigollet, The mean-field dynamics of Transformers, §5; rates derived here",
    measure=measure,
)
