"""A published metastable run on the circle, with error estimates for the merge times."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

BETA, T1 = 4.0, 400.0
START = np.array([0.06219714, 0.21432297, 1.81912262, 2.91107101, -3.09524835])
PLATEAUS = np.array([9, 13, 25]) / 25  # clusters of sizes (2, 2, 1), (2, 3), (5): sum of (size/n)^2
HALFWAY = (PLATEAUS[1:] + PLATEAUS[:-1]) / 2


def energy(theta: np.ndarray) -> np.ndarray:
    """Return `Ebar = (1/n^2) sum_ij e^{beta(cos(theta_i - theta_j) - 1)}`, for angles (..., n)."""
    return np.exp(BETA * (np.cos(theta[..., :, None] - theta[..., None, :]) - 1)).mean(axis=(-1, -2))


def merges(times: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the times at which the energy is halfway from one plateau to the next."""
    from scipy.interpolate import CubicSpline

    return np.array([CubicSpline(times, energy(theta)).solve(level, extrapolate=False)[0] for level in HALFWAY])


def attended(theta: np.ndarray) -> np.ndarray:
    """Return `<x, Att> + i <x', Att>` for each token x, x' its tangent (points of the plane as complex numbers)."""
    others = np.exp(1j * (theta - theta[:, None]))
    kernel = np.exp(BETA * others.real)
    return (kernel * others).sum(axis=1) / kernel.sum(axis=1)


def merges_by_scipy(field=lambda theta: attended(theta).imag) -> np.ndarray:
    """Return the merge times of `theta' = field(theta)`, by default SA for the angles, as events of SciPy's integrator."""
    from scipy.integrate import solve_ivp

    events = [lambda t, theta, level=level: energy(theta) - level for level in HALFWAY]
    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-12, "events": events}
    return np.concatenate(solve_ivp(lambda t, theta: field(theta), (0, T1), START, **options).t_events)


def flow(rtol: float) -> tuple[np.ndarray, np.ndarray]:
    """Return times and angles of the SA flow, with error control."""
    model = tkf.Transformer(tkf.Softmax(beta=BETA), norm=tkf.PostLN())
    run = tkf.simulate(model, tkf.circle_tokens(START), T1, save_at=4001, rtol=rtol, atol=rtol / 100, progress=False)
    x, y = np.moveaxis(run.dataset["x"].values, -1, 0)
    return run.times, np.unwrap(np.arctan2(y, x), axis=0)


def measure(quick: bool) -> Evidence:
    loose, tight, exact, checks = merges(*flow(1e-8)), merges(*flow(1e-11)), merges_by_scipy(), []
    for k, name in enumerate(("first", "last")):
        checks.append(close(f"{name} merge: time, against SciPy", exact[k], tight[k], rtol=1e-7))
        checks.append(at_most(f"{name} merge: change from tolerance 1e-8 to 1e-11", 1e-5, abs(loose[k] - tight[k])))
    return Evidence(tuple(checks), draw(*flow(1e-11), exact), CAPTION)


CAPTION = (
    "Angles and normalized energy of 5 tokens, SA, β = 4; square-root time axis. Gray: plateaus at 9/25, 13/25, 1. "
    "Dotted: merge times, where the energy is halfway between two plateaus."
)


def draw(times, theta, exact):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(times, theta + 2 * np.pi * (START < 0), color="#0072B2", lw=1)
    right.hlines(PLATEAUS, 0, T1, color="0.75", lw=0.7)
    right.plot(times, energy(theta), color="#0072B2")
    for ax, label in ((left, "angle"), (right, "normalized energy")):
        for time in exact:
            ax.axvline(time, color="0.4", ls=":", lw=1)
        ax.set_xscale("function", functions=(lambda t: np.sqrt(np.maximum(t, 0)), np.square))
        ax.set(xlabel="time t", ylabel=label, xlim=(0, T1), xticks=[0, 10, 50, 100, 200, 300, 400])
    return figure


CLAIM = Claim(
    id="published_circle",
    section="Metastability",
    title="A published metastable run, with error estimates",
    statement="Five tokens on the circle, SA, β = 4, from the published start: three clusters become two at t = 2.41, and these "
    "merge at t = 325.53. At a merge time the energy is halfway between the plateaus before and after; a plateau "
    "is at Σ_c w_c², with w_c the share of the tokens in cluster c.",
    source="Geshkovski, Koubbi, Polyanskiy, Rigollet 2024 (Dynamic metastability in the self-attention model), their start",
    measure=measure,
)
