"""The merge time of two clusters, for any masses, as an integral."""

import math

import numpy as np

import tokenfield as tkf

from ..claim import Claim, Evidence, at_most, close

RHO = 0.3
MASSES = {"equal masses": (0.5, 0.5), "masses 0.2, 0.8": (0.2, 0.8)}
KERNELS = {"SA": (tkf.Softmax, "softmax"), "USA": (tkf.Unnormalized, "unnormalized")}
COLORS = {"SA": "#0072B2", "USA": "#D55E00"}


def merge(kernel, beta: float, masses: tuple[float, float]) -> dict:
    state = tkf.Tokens([[1.0, 0.0], [RHO, math.sqrt(1 - RHO**2)]], weights=masses)
    model = tkf.Transformer(kernel(beta), norm=tkf.PostLN())
    run = tkf.simulate(model, state, math.inf, method="coarsen", progress=False)
    return next(event.detail for event in run.events if event.kind == "merge")


def measure(quick: bool) -> Evidence:
    betas = (10.0, 50.0, 700.0) if quick else (10.0, 20.0, 50.0, 100.0, 300.0, 700.0, 2000.0)
    checks, curves = [], {}
    for flow, (kernel, name) in KERNELS.items():
        for words, masses in MASSES.items():
            found, wrong = [], []
            for beta in betas:
                exact = tkf.theory.pair_merge_time(RHO, 1 - math.log(2) / beta, beta, masses, name, log=True)
                detail = merge(kernel, beta, masses)
                found.append(detail["log_time"])
                wrong.append(abs(math.expm1(detail["log_time"] - exact)))
            curves[flow, words] = found
            what = f"{flow}, {words}: largest relative error of the merge time, β = {betas[0]:g} … {betas[-1]:g}"
            checks.append(at_most(what, 1e-6, max(wrong)))
    slope = np.polyfit(betas[-2:], np.array(curves["SA", "equal masses"][-2:]) + np.log(betas[-2:]), 1)[0]
    checks.append(close("SA: slope of log(β T) against β, 1-ρ", 1 - RHO, slope, rtol=0.01))
    large = betas[-1]
    exact = large * (1 - RHO) - math.log(2 * large * (1 - RHO**2))
    checks.append(
        close(
            f"SA, equal masses, β = {large:g}: log T against e^(β(1-ρ))/(2β(1-ρ²))",
            exact,
            curves["SA", "equal masses"][-1],
            atol=0.02,
        )
    )
    return Evidence(tuple(checks), draw(betas, curves), CAPTION)


CAPTION = (
    "Logarithm of the merge time of two clusters that start at cosine 0.3, against β. Dots: runs; lines: the integral."
)


def draw(betas, curves):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4), layout="constrained")
    ax = figure.subplots()
    line = np.geomspace(betas[0], betas[-1], 40)
    for (flow, words), found in curves.items():
        masses, name = MASSES[words], KERNELS[flow][1]
        exact = [tkf.theory.pair_merge_time(RHO, 1 - math.log(2) / b, b, masses, name, log=True) for b in line]
        style = "-" if masses[0] == 0.5 else "--"
        ax.plot(line, exact, style, color=COLORS[flow], lw=1.2)
        ax.plot(
            betas,
            found,
            "o",
            ms=4,
            color=COLORS[flow],
            mfc=COLORS[flow] if style == "-" else "white",
            label=f"{flow}, {words}",
        )
    ax.set(xlabel="β", ylabel="log T", xscale="log", yscale="symlog")
    ax.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="two_clusters",
    section="Metastability",
    title="Two clusters merge after an exponentially long time, given by an integral",
    statement="Two clusters of masses m_i, m_j obey ρ' = (1-ρ²)[m_j/(m_i E+m_j) + m_i/(m_j E+m_i)], E = e^{β(1-ρ)}, under SA and "
    "ρ' = (1-ρ²)(m_i+m_j)e^{βρ} under USA. For equal masses SA takes about e^{β(1-ρ)}/(2β(1-ρ²)).",
    source="Derived from the flows; Geshkovski, Koubbi, Polyanskiy, Rigollet 2024 for the order e^{cβ}",
    measure=measure,
)
