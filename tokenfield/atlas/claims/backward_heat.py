"""Large beta: softmax attention is the backward heat equation, unnormalized attention the backward porous medium equation."""

import numpy as np

import tokenfield as tkf

from ...flows import segments
from ..claim import Claim, Evidence, at_least, at_most, close

BETAS = np.array([100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0])
TAU = 0.1
KERNELS = {"SA": tkf.Softmax, "USA": tkf.Unnormalized}
BLUE, ORANGE = "#0072B2", "#D55E00"


def smooth(d: int):
    """Return a smooth density without symmetry, far from uniform."""
    if d == 2:
        return tkf.CircleDensity.from_function(lambda a: np.exp(0.5 * np.cos(a) + 0.2 * np.sin(2 * a + 1)), 40)
    return tkf.SphereDensity.from_function(lambda x: np.exp(0.5 * x[:, 2] + 0.3 * x[:, 0] * (x[:, 1] + x[:, 2])), 20)


def laplacian(density, c) -> np.ndarray:
    return -np.asarray(density.harmonics.laplacian) * np.asarray(c)


def limits(density) -> dict[str, np.ndarray]:
    """Return coefficients of the limits `-Δp` of beta ∂_t p (SA) and `-½ Δ(p^2)` of ∂_t p/c (USA), and of SA's next term.

    The next term is `-½ ∇·(p ∇(Δp/p))`, over beta.
    """
    basis, c = density.harmonics, density.coefficients
    p, bent = basis.values(c), basis.values(laplacian(density, c))
    h = basis.coefficients(bent / p)
    curved = basis.coefficients(p * basis.values(laplacian(density, h)) - basis.values(h) * bent)
    div = (laplacian(density, laplacian(density, c)) + np.asarray(curved)) / 2
    return {
        "SA": -laplacian(density, c),
        "USA": -laplacian(density, basis.coefficients(p * p)) / 2,
        "SA, next": -div / 2,
    }


def velocity(density, kernel: str, beta: float) -> np.ndarray:
    """Return coefficients of beta ∂_t p (SA) or of `∂_t p/c`, `c = w_0/beta` (USA), at time 0."""
    model = tkf.Transformer(KERNELS[kernel](beta=beta), norm=tkf.PostLN())
    flow = segments(density, model)[0].flow
    log_c = tkf.theory.log_multiplier(0, beta, density.d) - np.log(beta) + float(flow.log_time_unit)
    scale = beta if kernel == "SA" else np.exp(-log_c)
    return scale * np.asarray(flow.velocity(0.0, density.coefficients))


def grown(beta: float, t1: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coefficients on the circle at t = 0, at t1 by the backward heat equation, `c_k e^{k^2 t/beta}`, and at t1 under SA."""
    start = tkf.CircleDensity.from_function(lambda a: 1 + 0.5 * np.cos(a) + 0.2 * np.cos(2 * a + 1), 64)
    model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
    run = tkf.simulate(model, start, t1, save_at=[0.0, t1], rtol=1e-12, atol=1e-13, progress=False)
    first, last = run.dataset["coefficients"].values
    first[:, 3:] = 0  # rounding, which the backward heat equation would let grow without bound
    return first, first * np.exp(np.minimum(np.arange(65), 2) ** 2 * t1 / beta), last


def missed(first: np.ndarray, heat: np.ndarray, last: np.ndarray) -> float:
    """Return the distance of the run from the backward heat equation, relative to the change in that time."""
    return float(np.linalg.norm(last - heat) / np.linalg.norm(heat - first))


def power(beta: np.ndarray, error: np.ndarray) -> float:
    return float(np.polyfit(np.log(beta), np.log(error), 1)[0])


def measure(quick: bool) -> Evidence:
    checks, errors = [], {}
    for d in (2,) if quick else (2, 3):
        density, place = smooth(d), "circle" if d == 2 else "2-sphere"
        wanted = limits(density)
        for kernel in KERNELS:
            found = {beta: velocity(density, kernel, beta) for beta in BETAS}
            size = np.linalg.norm(wanted[kernel])
            error = np.array([np.linalg.norm(found[beta] - wanted[kernel]) for beta in BETAS]) / size
            errors[d, kernel] = error
            equation = "-Δμ/β" if kernel == "SA" else "-(c/2)Δ(μ²)"
            name = f"{kernel}, {place}: distance of ∂_t μ from {equation}"
            checks.append(at_most(f"{name} at β = 3200, relative", 0.01, error[-1]))
            checks.append(close(f"{name}, power of β", -1.0, power(BETAS[2:], error[2:]), atol=0.03))
            last = float(BETAS[-1])
            if kernel == "SA":
                next_term = last * (found[last] - wanted["SA"])
                away = np.linalg.norm(next_term - wanted["SA, next"]) / np.linalg.norm(wanted["SA, next"])
                text = "SA, {}: β² times the remainder, relative distance from -½∇·(μ∇(Δμ/μ)), β = 3200"
                checks.append(at_most(text.format(place), 0.02, away))
            else:
                cosine = -(found[last] * wanted["USA"]).sum() / np.linalg.norm(found[last]) / size
                text = f"USA, {place}, as printed (forward): cosine of ∂_t μ and Δ(μ²)"
                checks.append(at_least(text, 0.0, float(cosine), printed=True))
    sharp = np.array([100.0, 400.0]) if quick else np.array([50.0, 100.0, 200.0, 400.0])
    change = np.array([missed(*grown(beta, 1.0)) for beta in sharp])
    text = "SA, circle: run to t = 1, distance from c_k e^{k²t/β}, relative to the change in that time"
    checks.append(at_most(f"{text}, β = 400", 0.02, change[-1]))
    checks.append(close(f"{text}, power of β", -1.0, power(sharp, change), atol=0.1))
    runs = {beta: grown(beta, TAU * beta) for beta in (50.0, 200.0)}
    checks.append(at_most("the same, run to t = 0.1 β, β = 200", 0.05, missed(*runs[200.0])))
    return Evidence(tuple(checks), draw(errors, runs), CAPTION)


CAPTION = (
    "Left: relative distance of ∂_t μ from the backward heat equation (SA) and the backward porous medium equation (USA) against "
    "β, for a smooth density; dotted: 1/β. Right: a density on the circle at t = 0, and at t = 0.1 β by the backward heat "
    "equation and under SA."
)


def draw(errors, runs):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (d, kernel), error in errors.items():
        style = {"color": BLUE if kernel == "SA" else ORANGE, "marker": "o" if d == 2 else "s", "mfc": "none"}
        left.loglog(
            BETAS,
            error,
            ls="-" if d == 2 else "--",
            lw=1,
            label=f"{kernel}, {'circle' if d == 2 else '2-sphere'}",
            **style,
        )
    left.loglog(BETAS, 1 / BETAS, ":", color="0.3", lw=1)
    left.set(xlabel="β", ylabel="relative distance from the limit")
    left.legend(frameon=False)
    a = np.linspace(-np.pi, np.pi, 361)
    values = lambda c: tkf.CircleDensity(c).density(np.stack([np.cos(a), np.sin(a)], axis=1))  # noqa: E731
    right.plot(a, values(runs[50.0][0]), color="0.6", lw=1, label="t = 0")
    right.plot(a, values(runs[50.0][1]), color="black", lw=2, label="backward heat")
    for (beta, (_, _, last)), line, color in zip(runs.items(), ("--", "-."), (ORANGE, BLUE), strict=True):
        right.plot(a, values(last), line, color=color, lw=1.2, label=f"SA, β = {beta:g}")
    right.set(xlabel="angle", ylabel="density (uniform: 1)", ylim=(0, None))
    right.set_xticks([-np.pi, 0, np.pi], ["-π", "0", "π"])
    right.legend(frameon=False)
    return figure


CLAIM = Claim(
    id="backward_heat",
    section="Models",
    title="At large β, SA is the backward heat equation and USA is the backward porous medium equation",
    statement="For a smooth density μ and large β, SA is ∂_t μ = -(1/β)Δμ, so that mode k grows at the rate k(k+d-2)/β, and USA "
    "is ∂_t μ = -(c/2)Δ(μ²), c = (1/β)∫ e^{β<x,y>} dσ(y), both up to a relative error of order 1/β (under SA the next term is "
    "-(1/2β²)∇·(μ∇(Δμ/μ))). Both limits are ill-posed: they hold for modes with k² ≪ β, and only as long as the others stay "
    "small. The survey says “reverse heat equation” for SA but “porous medium equation” for USA; the latter is backward too.",
    source="Rigollet, The mean-field dynamics of Transformers, §3.2; Bruno, Pasqualotto, Agazzi 2025 (A multiscale analysis of "
    "mean-field transformers in the moderate interaction regime)",
    measure=measure,
)
