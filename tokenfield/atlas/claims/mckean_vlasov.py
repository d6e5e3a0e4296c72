"""Noisy tokens follow their mean-field law as n grows, with fluctuations of order n^{-1/2}."""

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

KAPPA, BLUE, ORANGE = 3.0, "#0072B2", "#D55E00"


def mean_field_order() -> float:
    """Return the positive root of `r = I_1(kappa r)/I_0(kappa r)`."""
    from scipy.optimize import brentq
    from scipy.special import i0, i1

    return brentq(lambda r: r - i1(KAPPA * r) / i0(KAPPA * r), 0.1, 1.0)


def finite_moments(n: int, kappa: float = KAPPA) -> tuple[float, float]:
    """Return the mean and standard deviation of `|m|²`, m the mean of n tokens with density `∝ exp(kappa n |m|²/2)`, exactly.

    Given a random field u with weight `e^{-n u²/(2 kappa)} I_0(u)^n`, tokens are independent, and `u/kappa` is m plus an
    independent Gaussian of variance `1/(n kappa)` in each coordinate.
    """
    from scipy.special import i0e

    u = np.linspace(0, 6 * kappa, 200_001)
    log_weight = n * (-(u**2) / (2 * kappa) + np.log(i0e(u)) + u)
    weight = u * np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    m2 = (u**2 @ weight) / kappa**2
    m4 = (u**4 @ weight) / kappa**4
    s = 1 / (n * kappa)  # |a + g|² for a Gaussian g of variance s: moments of a from those of a + g
    second = m2 - 2 * s
    fourth = m4 - 8 * s * second - 8 * s**2
    return second, float(np.sqrt(fourth - second**2))


def orders(n: int, places: int, runs: int) -> np.ndarray:
    """Return `|m|²` at the end of independent runs of n tokens, padded with zero-weight tokens: one program serves every n."""
    model = tkf.Transformer(tkf.Unnormalized(beta=0.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(KAPPA))
    weights = (np.arange(places) < n) / n
    start = tkf.Tokens(tkf.hemisphere(places, 2, seed=0).x, weights)
    ensemble = tkf.simulate_many(model, start, 8.0, seeds=range(runs), save_at=[8.0], dt=0.1, progress=False)
    return ((weights @ ensemble.dataset["x"].values[:, 0]) ** 2).sum(-1)


def measure(quick: bool) -> Evidence:
    r = mean_field_order()
    checks = [close("mean-field order parameter, κ = 3, β → 0", 0.72415872, r, atol=1e-8)]
    sizes = np.array([8, 32] if quick else [8, 32, 128, 512])
    runs = 300 if quick else 2000
    exact, deviation = np.array([finite_moments(int(n)) for n in sizes]).T
    squares = np.array([orders(int(n), int(sizes[-1] if quick else n), runs) for n in sizes])
    mean, spread = squares.mean(1), squares.std(1)
    for n, found, true, size in zip(sizes, squares, exact, deviation, strict=True):
        sigmas = abs(found.mean() - true) / (size / np.sqrt(runs))
        checks.append(
            at_most(f"n = {n}: distance of the mean of |m|² from its exact value, in standard errors", 4.0, sigmas)
        )
        checks.append(close(f"n = {n}: standard deviation of |m|²", size, found.std(), rtol=4 / np.sqrt(2 * runs)))
    power = lambda n, values: np.polyfit(np.log(n), np.log(values), 1)[0]  # noqa: E731
    many = 1000, 100_000
    limit = power(many, [finite_moments(n)[1] for n in many])
    checks.append(close("power of n in the fluctuations, Gibbs law of 10^3 to 10^5 tokens", -0.5, limit, atol=0.005))
    checks.append(close("the same, simulated", power(sizes, deviation), power(sizes, spread), atol=0.1))
    return Evidence(tuple(checks), draw(sizes, mean, spread, r), CAPTION)


CAPTION = (
    "Noisy Kuramoto model, κ = 3. Left: |m|² over independent runs (dots, one standard deviation) and the mean-field value "
    "(line). Right: its standard deviation (dots) and the exact one (line), which falls like n^{-1/2}."
)


def draw(sizes, mean, spread, r):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.errorbar(sizes, mean, spread, fmt="o", ms=3, color=ORANGE)
    left.axhline(r**2, color=BLUE, lw=0.9)
    left.set(xscale="log", xlabel="tokens n", ylabel="|m|²")
    right.loglog(sizes, spread, "o", ms=4, color=ORANGE)
    right.loglog(sizes, [finite_moments(int(n))[1] for n in sizes], color=BLUE, lw=0.9)
    right.set(xlabel="tokens n", ylabel="standard deviation of |m|²")
    return figure


CLAIM = Claim(
    id="mckean_vlasov",
    section="Noise",
    title="Many noisy tokens follow the mean-field law",
    statement="As n → ∞, n noisy tokens under USA follow the McKean–Vlasov equation. At κ = 3 and β → 0 on the circle the order "
    "parameter tends to the root r of r = I_1(κr)/I_0(κr), and its fluctuations fall like n^{-1/2}; for each n both agree "
    "with the Gibbs law exp(κ n |m|²/2).",
    source="Rigollet, The mean-field dynamics of Transformers, (9); Bertini, Giacomin, Pakdaman 2010 (noisy Kuramoto model)",
    measure=measure,
)
