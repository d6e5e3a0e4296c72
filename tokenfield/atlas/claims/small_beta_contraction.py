"""Small beta: a density with a nonzero mean collapses exponentially, at a rate set by the escape from the antipode."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_least, at_most, close

R0, T1 = 0.2, 16.0
PANELS, POINTS = 30, 12
TIMES = np.linspace(0, T1, 65)
KERNELS = {"USA": tkf.Unnormalized, "SA": tkf.Softmax}
BLUE, ORANGE = "#0072B2", "#D55E00"


def poisson(a: np.ndarray) -> np.ndarray:
    """Return the Poisson kernel `(1 - r0^2)/(1 - 2 r0 cos a + r0^2)`: positive everywhere, with mean r0 e, e at angle 0."""
    return (1 - R0**2) / (1 - 2 * R0 * np.cos(a) + R0**2)


def nodes_of_density() -> tkf.Tokens:
    """Return the density as weighted tokens: a quadrature with nodes graded toward the antipode -e.

    Gauss nodes on `[pi/2^{j+1}, pi/2^j]`, j = 0, 1, …, in the distance s from -e, on both sides. The flow moves them
    smoothly, so they remain a quadrature, even after all but the last panels have left the antipode.
    """
    x, w = np.polynomial.legendre.leggauss(POINTS)
    edges = np.pi * np.append(2.0 ** -np.arange(PANELS), 0.0)[::-1]
    half = np.diff(edges)[:, None] / 2
    s, w = (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
    w = w * poisson(np.pi - s)
    x = np.concatenate([np.stack([-np.cos(s), sign * np.sin(s)], axis=1) for sign in (1, -1)])
    return tkf.Tokens(x, np.concatenate([w, w]) / (2 * w.sum()))


def equal_tokens() -> tkf.Tokens:
    """Return as many tokens of equal mass, at quantiles: `tan(a/2) = (1-r0)/(1+r0) tan(u/2)`, u evenly spaced."""
    n = 2 * PANELS * POINTS
    u = (2 * np.arange(n) + 1) * np.pi / n - np.pi
    return tkf.circle_tokens(2 * np.arctan((1 - R0) / (1 + R0) * np.tan(u / 2)))


def simulated(kernel: str, beta: float, start) -> tkf.Trajectory:
    model = tkf.Transformer(KERNELS[kernel](beta=beta), norm=tkf.PostLN())
    return tkf.simulate(model, start, T1, save_at=TIMES, rtol=1e-10, atol=1e-11, method="tsit5", progress=False)


def distances(run: tkf.Trajectory) -> np.ndarray:
    """Return `W_2(mu_t, delta_e) = (∫ |x - e|^2 dmu)^{1/2}`: there is only one coupling with a Dirac mass."""
    x, w = run.dataset["x"].values, run.dataset["weights"].values
    return np.sqrt(((x - np.eye(x.shape[-1])[0]) ** 2).sum(-1) @ w)


def slopes(W: np.ndarray) -> np.ndarray:
    """Return `-d log W/dt`, averaged between saved times."""
    return -np.diff(np.log(W)) / np.diff(TIMES)


def escape(kernel: str, beta: float) -> float:
    """Return the rate at which tokens leave the antipode of a cluster of mass 1: e^{-beta} under USA, 1 under SA."""
    return float(np.exp(-beta)) if kernel == "USA" else 1.0


def contraction(kernel: str, beta: float) -> float:
    """Return the rate at which tokens approach the cluster: e^beta under USA, 1 under SA."""
    return float(np.exp(beta)) if kernel == "USA" else 1.0


def zonal_rate(d: int) -> float:
    """Return the terminal rate for `p = 1 + <x, e>/2` on the sphere of R^d, beta = 0, where only the mean matters.

    Around the axis e, the points ±e_1, …, ±e_{d-1} replace the sphere: they have the same mean.
    """
    from scipy.special import beta as euler_beta

    x, w = np.polynomial.legendre.leggauss(POINTS)
    edges = np.pi * np.append(2.0 ** -np.arange(16), 0.0)[::-1]
    half = np.diff(edges)[:, None] / 2
    s, w = (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()  # s: distance from -e
    w = w * (1 - np.cos(s) / 2) * np.sin(s) ** (d - 2) / euler_beta((d - 1) / 2, 0.5)
    around = np.concatenate([np.eye(d - 1), -np.eye(d - 1)])
    points = [np.column_stack([-np.full(len(around), np.cos(a)), np.sin(a) * around]) for a in s]
    start = tkf.Tokens(np.concatenate(points), np.repeat(w / w.sum(), len(around)) / len(around))
    return float(slopes(distances(simulated("USA", 0.0, start)))[-1])


def against_density(kernel: str, beta: float) -> float:
    """Return the largest difference of W_2 between the weighted tokens and a Fourier series, up to t = 2.5."""
    model = tkf.Transformer(KERNELS[kernel](beta=beta), norm=tkf.PostLN())
    times, start = TIMES[TIMES <= 2.5], tkf.CircleDensity.from_function(poisson, 64)
    run = tkf.simulate(model, start, times[-1], save_at=times, rtol=1e-10, atol=1e-12, progress=False)
    W = np.sqrt(2 - np.sqrt(2) * run.dataset["coefficients"].values[:, 0, 1])
    return float(np.abs(W - distances(simulated(kernel, beta, nodes_of_density()))[: len(times)]).max())


def measure(quick: bool) -> Evidence:
    checks, curves = [], {}
    density, equal = nodes_of_density(), equal_tokens()
    cases = [("USA", 0.0), ("USA", 0.2)] if quick else [("USA", b) for b in (-0.1, 0.0, 0.2, 0.4)] + [("SA", 0.2)]
    for kernel, beta in cases:
        name, W = f"{kernel}, β = {beta:g}", distances(simulated(kernel, beta, density))
        if beta == 0:
            r = R0 * np.exp(TIMES / 2) / np.sqrt(1 - R0**2 + R0**2 * np.exp(TIMES))
            gap = (1 - R0**2) / ((1 - R0**2 + R0**2 * np.exp(TIMES)) * (1 + r))  # 1 - r without cancellation
            error = np.abs(W / np.sqrt(2 * gap) - 1).max()
            checks.append(at_most("β = 0, density: relative error of W_2 = √(2(1-r)), r in closed form", 1e-7, error))
        checks.append(at_least(f"{name}, density: least rate -d log W_2/dt at any time", 0.01, slopes(W).min()))
        text = f"{name}, density: rate at t = {T1:g}, half the escape rate"
        checks.append(close(text, escape(kernel, beta) / 2, slopes(W)[-1], rtol=1e-3))
        if beta == 0.2:
            few = distances(simulated(kernel, beta, equal))
            text = f"{name}, {equal.n} equal tokens: rate at t = {T1:g}, the contraction rate"
            checks.append(close(text, contraction(kernel, beta), slopes(few)[-1], rtol=1e-3))
            curves[kernel] = W, few
    if not quick:
        for kernel in KERNELS:
            error = against_density(kernel, 0.2)
            checks.append(
                at_most(f"{kernel}, β = 0.2: largest difference of W_2 from that of a Fourier series", 1e-8, error)
            )
        checks.append(
            close("d = 5, β = 0, density: rate at t = 16, the contraction rate", 1.0, zonal_rate(5), rtol=1e-3)
        )
    return Evidence(tuple(checks), draw(curves), CAPTION)


CAPTION = (
    "Left: W_2 to the Dirac mass at e, from a Poisson kernel with mean 0.2 e on the circle, β = 0.2. For the density, which stays "
    "positive at the antipode, W_2 decays at half the rate of escape from there; for tokens of equal mass it decays at the "
    "contraction rate of a cluster, once the last token has left. Right: the rate against time, with e^{-β}/2 and e^β (SA: 1/2 "
    "and 1; dotted) and the proved 1/100 (gray)."
)


def draw(curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    middles = (TIMES[1:] + TIMES[:-1]) / 2
    for (kernel, (W, few)), color in zip(curves.items(), (BLUE, ORANGE), strict=False):
        left.semilogy(TIMES, W, color=color, label=f"{kernel}, density")
        left.semilogy(TIMES, few, "--", color=color, label=f"{kernel}, {2 * PANELS * POINTS} tokens")
        right.plot(middles, slopes(W), color=color)
        right.plot(middles, slopes(few), "--", color=color)
        for rate in (escape(kernel, 0.2) / 2, contraction(kernel, 0.2)):
            right.axhline(rate, color="0.3", ls=":", lw=1)
    right.axhline(0.01, color="0.6", lw=1)
    left.set(xlabel="time t", ylabel="$W_2$ to the Dirac mass", xlim=(0, T1))
    right.set(xlabel="time t", ylabel="rate $-d\\,\\log W_2/dt$", xlim=(0, T1), ylim=(0, 1.3))
    left.legend(frameon=False, loc="lower left")
    return figure


CLAIM = Claim(
    id="small_beta_contraction",
    section="Clustering on the sphere",
    title="Small β: a density with nonzero mean collapses exponentially, on the circle at half the rate of escape",
    statement="For |β| < β_0(μ_0), a start with a density in L² and a nonzero mean converges to a Dirac mass under USA, with "
    "W_2 ≤ C_0 e^{-t/100} from some time on (proved; Morales and Poyato for β = 0 on the circle). Measured from a start "
    "that is positive everywhere, W_2 falls at a positive rate at all times, far above 1/100. Linearization gives the "
    "rate: a cluster attracts tokens at the rate e^β (SA: 1), and they leave its antipode at the rate e^{-β} (SA: 1), so mass "
    "e^{-(d-1)e^{-β}t} has not arrived yet and the rate is the smaller of e^β and (d-1)e^{-β}/2. On the circle that is e^{-β}/2 "
    "(SA: 1/2), not the rate e^β of finitely many tokens, which begins when the last one has left the antipode.",
    source="Rigollet, The mean-field dynamics of Transformers, Theorem 5; Chen, Lin, Polyanskiy, Rigollet 2025; Morales, "
    "Poyato 2022",
    measure=measure,
)
