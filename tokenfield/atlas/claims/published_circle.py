"""A published metastable run on the circle, with merge times that can be trusted."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

BETA, T1, H = 4.0, 400.0, 0.1
START = np.array([0.06219714, 0.21432297, 1.81912262, 2.91107101, -3.09524835])
PLATEAUS = np.array([9, 13, 25]) / 25  # clusters of sizes (2, 2, 1), (2, 3), (5): sum of (size/n)^2
HALFWAY = (PLATEAUS[1:] + PLATEAUS[:-1]) / 2
BLUE, ORANGE = "#0072B2", "#D55E00"


def energy(theta: np.ndarray) -> np.ndarray:
    """`Ebar = (1/n^2) sum_ij e^{beta(cos(theta_i - theta_j) - 1)}`, for angles (..., n)."""
    return np.exp(BETA * (np.cos(theta[..., :, None] - theta[..., None, :]) - 1)).mean(axis=(-1, -2))


def merges(times: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The times at which the energy is half-way from one plateau to the next."""
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(times, energy(theta))
    return np.array([spline.solve(level, extrapolate=False)[0] for level in HALFWAY])


def flow(rtol: float) -> tuple[np.ndarray, np.ndarray]:
    model = tkf.Transformer(tkf.Softmax(beta=BETA), norm=tkf.PostLN())
    run = tkf.simulate(model, tkf.circle_tokens(START), T1, save_at=4001, rtol=rtol, atol=rtol / 100, progress=False)
    return run.times, np.arctan2(*run.dataset["x"].values.T[::-1]).T


def stepped(h: float) -> tuple[np.ndarray, np.ndarray]:
    """The layer `x <- N(x + h Att)`, repeated in a plain loop; complex numbers are points of the plane."""
    x = [np.exp(1j * START)]
    while len(x) <= round(T1 / h):
        kernel = np.exp(BETA * (x[-1][:, None] / x[-1]).real)
        y = x[-1] + h * kernel @ x[-1] / kernel.sum(axis=1)
        x.append(y / np.abs(y))
    return h * np.arange(len(x)), np.angle(x)


def by_scipy() -> np.ndarray:
    """The merge times of the equation for the angles, with SciPy's integrator and events."""
    from scipy.integrate import solve_ivp

    def field(t, theta):
        gap = theta - theta[:, None]
        kernel = np.exp(BETA * np.cos(gap))
        return (kernel * np.sin(gap)).sum(axis=1) / kernel.sum(axis=1)

    events = [lambda t, theta, level=level: energy(theta) - level for level in HALFWAY]
    return np.concatenate(solve_ivp(field, (0, T1), START, "DOP853", rtol=1e-12, atol=1e-13, events=events).t_events)


def measure(quick: bool) -> Evidence:
    fine, coarse, exact = flow(1e-11), flow(1e-8), by_scipy()
    checks = []
    for k, name in enumerate(("first", "last")):
        checks.append(close(f"{name} merge: time, against SciPy", exact[k], merges(*fine)[k], rtol=1e-7))
        change = abs(merges(*coarse)[k] - merges(*fine)[k])
        checks.append(at_most(f"{name} merge: change from tolerance 1e-8 to 1e-11", 1e-5, change))
    for h in (H,) if quick else (H, H / 2, H / 10):
        delay = merges(*stepped(h))[1] / exact[1] - 1
        checks.append(close(f"fixed steps of {h:g}: relative delay of the last merge", 1.09 * h, delay, rtol=0.01))
    for (times, theta), published in ((fine, 328.4), (stepped(H), 364.1)):
        above = np.cos(theta[:, 0] - theta[:, 2]) > 0.999
        what = f"time at which all cosines exceed 0.999, {'steps of 0.1' if published > 350 else 'flow'}"
        checks.append(close(what, published, times[np.argmax(above)], atol=0.1))
    return Evidence(tuple(checks), draw(fine, stepped(H), exact), CAPTION)


CAPTION = (
    "Angles (left) and normalised energy (right) of 5 tokens, SA, β = 4: error control (blue) and fixed steps of 0.1 (orange, "
    "dashed). Dotted: merge times, where the energy is half-way between the plateaus 9/25, 13/25 and 1 (thin lines)."
)


def draw(fine, coarse, exact):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (times, theta), style in ((fine, {"color": BLUE}), (coarse, {"color": ORANGE, "ls": "--"})):
        left.plot(times, np.unwrap(np.mod(theta, 2 * np.pi), axis=0), lw=1, **style)
        right.plot(times, energy(theta), lw=1.2, **style)
    for level in PLATEAUS:
        right.axhline(level, color="0.75", lw=0.6, zorder=0)
    for time in exact:
        right.axvline(time, color="0.4", ls=":", lw=1)
    left.set(xlabel="time t", ylabel="angle")
    right.set(xlabel="time t", ylabel="normalised energy")
    return figure


CLAIM = Claim(
    id="published_circle",
    section="Metastability",
    title="A published metastable run, and what a fixed step does to it",
    statement="Five tokens on the circle, SA, β = 4: three clusters merge to two at t = 2.41, which wait until t = 325.53 "
    "(merge times: energy half-way between two plateaus). A fixed step of 0.1 of the layer N(x + h Att), as in published "
    "scripts, makes the last merge 11 % late: each step is too short by about the factor 1 + h, and waits are long.",
    source="Geshkovski, Koubbi, Polyanskiy, Rigollet 2024 (Dynamic metastability in the self-attention model), their start; "
    "merge times measured here",
    measure=measure,
)
