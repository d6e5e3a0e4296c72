"""Flows of tokens in R^d coordinates, integrated by SciPy's DOP853 (FORMULAS §2, §7).

Under Pre-LN and Peri-LN the token itself obeys `x' = A(N x)` and `x' = N(A(N x))`, since `x = r theta`.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from . import norms

RATE = 1e9  # growth per unit of time at which a solution counts as blown up
SMALL = 1e-6  # a length that is followed to here is extrapolated to 0
MOST = 20_000  # evaluations after which the reference gives up
LITTLE = 1e-4  # an output this short, which Peri-LN and nGPT normalize, may be about to turn round


@dataclass
class Ending:
    """How a reference run ends: kind "end", "blow_up", "vanished" or "turning", at a time with the tokens there.

    Where an output passes 0 its direction jumps, and the flows of Peri-LN and nGPT have no solution beyond ("turning").
    """

    kind: str
    time: float
    x: np.ndarray
    path: object


def velocity(case, x, t):
    """`dx/dt` at tokens x."""
    read = norms.reads(case, x, t)
    outputs = [f(read) for f in norms.sublayers(case)]
    if case.norm in ("peri", "ngpt"):
        outputs = [norms.unit(a) for a in outputs]
    a = sum(outputs)
    if case.norm == "none" or case.norm in ("pre", "peri") or (case.norm == "mix" and t > case.tau):
        return a
    scale = {"ngpt": case.alpha, "sqrt": 1 / np.sqrt(t + 1)}.get(case.norm, 1.0)
    return scale * (a - x * (x * a).sum(-1, keepdims=True) / (x * x).sum(-1, keepdims=True))


def integrate(case, x, t0, t1, rtol=1e-11):
    """Integrate between two times within which the right-hand side is smooth."""
    shape, free = x.shape, case.norm in ("pre", "peri", "mix")
    with_growth = case.norm == "none"

    calls = itertools.count(0, 10 if any(head.kernel == "sinkhorn" for head in case.heads) else 1)

    def f(t, y):
        if next(calls) > MOST:
            raise TimeoutError
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(velocity(case, y.reshape(shape), t).ravel(), nan=1e300, posinf=1e300, neginf=-1e300)

    def growth(t, y):
        return np.linalg.norm(f(t, y)) / np.linalg.norm(y) - RATE

    def shortest(t, y):
        return np.linalg.norm(y.reshape(shape), axis=1).min() - SMALL

    def weakest(t, y):
        read = norms.reads(case, y.reshape(shape), t)
        sizes = np.concatenate([norms.length(out(read)) for out in norms.sublayers(case)])
        return np.where(sizes > 0, sizes, 1.0).min() - LITTLE

    growth.terminal = shortest.terminal = weakest.terminal = True
    shortest.direction = weakest.direction = -1
    events = [growth] if with_growth else [shortest] if free else []
    if case.norm in ("peri", "ngpt"):
        events = [*events, weakest]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        run = solve_ivp(
            f, (t0, t1), x.ravel(), method="DOP853", rtol=rtol, atol=1e-13, events=events, dense_output=True
        )
    end, last = float(run.t[-1]), run.y[:, -1].reshape(shape)
    if run.status == 0:
        return Ending("end", t1, last, run)
    if case.norm in ("peri", "ngpt") and len(run.t_events[-1]):
        return Ending("turning", end, last, run)
    if free:
        sizes = np.linalg.norm(last, axis=1)
        i = int(sizes.argmin())
        rate = (last * velocity(case, last, end)).sum(1)[i] / sizes[i]
        return Ending("vanished", end - sizes[i] / rate, last, run)
    return Ending("blow_up", end, last, run)


def run(case, x=None, t1=None):
    """The tokens at t1, or where the solution ends."""
    x, t1 = case.x if x is None else x, case.t1 if t1 is None else t1
    if case.norm == "mix" and t1 > case.tau:
        first = integrate(case, x, 0.0, case.tau)
        return integrate(case, first.x, np.nextafter(case.tau, np.inf), t1)
    return integrate(case, x, 0.0, t1)


def sensitivity(case, x, ending):
    """How much a small displacement of the start has grown at the end (at least 1)."""
    rng = np.random.default_rng(0)
    e = rng.normal(size=x.shape)
    e *= 1e-7 * np.linalg.norm(x) / np.linalg.norm(e)
    other = run(
        case, x + (e if case.norm in ("none", "pre", "peri") else norms.unit(x + e) * norms.length(x) - x), ending.time
    )
    return max(1.0, np.linalg.norm(other.x - ending.x) / np.linalg.norm(e))


def rescaled(V, x, t):
    """`z = e^{-tV} x`."""
    return x @ expm(-t * V).T


def fisher_rao(x, m, beta, rate, t1):
    """Tokens and weights at t1 under the Wasserstein–Fisher–Rao flow: `m_i' = c m_i (phi_i - sum_j m_j phi_j)`."""
    n, d = x.shape

    def f(t, y):
        z, w = y[: n * d].reshape(n, d), y[n * d :]
        k = np.exp(beta * z @ z.T) * w
        pull, phi = k @ z, k.sum(1) / beta
        return np.concatenate([(pull - z * (z * pull).sum(1, keepdims=True)).ravel(), rate * w * (phi - w @ phi)])

    y = solve_ivp(f, (0, t1), np.concatenate([x.ravel(), m]), method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    return y[: n * d].reshape(n, d), y[n * d :]


def merge_times(kernel, x, w, beta, t1):
    """Times at which pairs of groups have come halfway up their step of the energy, `e^{-beta(1-cos)} = 1/2`, in order.

    Post-LN in plain time by a stiff solver. A pair counts when both its tokens are the heaviest of their groups.
    """
    n, d = x.shape

    def f(t, y):
        z = norms.unit(y.reshape(n, d))
        k = np.exp(beta * (z @ z.T - 1)) * w
        pull = k @ z / k.sum(1, keepdims=True) if kernel == "softmax" else np.exp(beta) * (k @ z)
        return (pull - z * (z * pull).sum(1, keepdims=True)).ravel()

    def crossing(i, j):
        def gap(t, y):
            z = norms.unit(y.reshape(n, d))
            return np.exp(-beta * ((z[i] - z[j]) ** 2).sum() / 2) - 0.5

        return gap

    pairs = [(i, j) for i in range(n) for j in range(i)]
    run = solve_ivp(
        f, (0, t1), x.ravel(), method="LSODA", rtol=1e-11, atol=1e-13, events=[crossing(*pair) for pair in pairs]
    )
    times = {pair: t[0] for pair, t in zip(pairs, run.t_events, strict=True) if len(t)}
    found, groups = [], list(range(n))
    for pair in sorted(times, key=times.get):
        a, b = groups[pair[0]], groups[pair[1]]
        if a != b:
            groups = [a if g == b else g for g in groups]
            found.append(times[pair])
    return found
